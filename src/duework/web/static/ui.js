/* Duework: the whole of our own browser code. Every page and action works without it.
   It does: theme, density, zone, selection and the bulk bar, keyboard, dialogs, copy, the live light. */
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (s, n = document) => n.querySelector(s);
  const $$ = (s, n = document) => [...n.querySelectorAll(s)];
  const cookie = (k, v) => { document.cookie = `${k}=${encodeURIComponent(v)};path=/;max-age=31536000;samesite=lax`; };

  // The server renders data-theme, data-density and the zone from these cookies: no flash, no inline script.
  cookie("tz", Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");
  const cycle = (name, values) => {
    const seen = name === "theme" && matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : values[0];
    const next = values[(values.indexOf(root.dataset[name] || seen) + 1) % values.length];
    root.dataset[name] = next; cookie(name, next); say(`${name}: ${next}`);
  };

  const say = (text) => { const live = $("#say"); if (live) live.textContent = text; };

  // selection: the bulk bar counts what is ticked; without JavaScript the same buttons stand below the table
  const bulk = () => {
    const bar = $("#bulk"); if (!bar) return;
    const n = $$("input[name=id]:checked").length;
    bar.hidden = n === 0; const c = $("#bulk-n"); if (c) c.textContent = n;
    const all = $("#all"); if (all) { const m = $$("input[name=id]").length; all.checked = n === m; all.indeterminate = n > 0 && n < m; }
  };
  document.addEventListener("change", (e) => {
    if (e.target.id === "all") $$("input[name=id]").forEach((b) => { b.checked = e.target.checked; });
    if (e.target.matches("#all, input[name=id]")) bulk();
    if (e.target.id === "keys-on") { root.dataset.keys = e.target.checked ? "on" : "off"; cookie("keys", root.dataset.keys); }
  });
  bulk();
  $(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

  // dialogs: a link with data-dialog opens that dialog; without JavaScript the link is a page
  document.addEventListener("click", (e) => {
    const open = e.target.closest("[data-dialog]");
    if (open) { const d = document.getElementById(open.dataset.dialog); if (d) { e.preventDefault(); d.showModal(); } return; }
    const shut = e.target.closest("[data-close]"); if (shut) { e.preventDefault(); shut.closest("dialog")?.close(); return; }
    const copy = e.target.closest("[data-copy]"); if (copy) { navigator.clipboard?.writeText(copy.dataset.copy); say("copied"); return; }
    const t = e.target.closest("[data-cycle]"); if (t) { cycle(t.dataset.cycle, t.dataset.values.split(" ")); return; }
    if (e.target.closest("#live")) pause();
    const toast = e.target.closest(".toast [data-dismiss]"); if (toast) toast.closest(".toast").remove();
  });
  // The live light. "Held" keeps the picture and drops fragments; letting go asks for the page once and morphs it in.
  const light = (state, words) => {
    const b = $("#live"); if (!b) return;
    b.dataset.live = state; $("span", b).textContent = words; b.setAttribute("aria-pressed", state === "paused");
  };
  const catchUp = () => (window.htmx ? htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerMorph" }) : location.reload());
  const pause = () => {
    const on = root.toggleAttribute("data-hold");
    light(on ? "paused" : "on", on ? "Held" : "Live"); say(on ? "updates held" : "live"); if (!on) catchUp();
  };
  let lost = 0;
  document.addEventListener("htmx:ws:before:message:incoming", (e) => { if (root.hasAttribute("data-hold")) e.preventDefault(); else setTimeout(tick, 50); });
  document.addEventListener("htmx:ws:after:connection", () => {
    clearTimeout(lost); lost = 0; $("#notlive")?.replaceChildren();
    if (!root.hasAttribute("data-hold")) light("on", "Live");
  });
  document.addEventListener("htmx:ws:close", (e) => {
    if (document.hidden) return; // the socket is shut on purpose while nobody looks
    if (e.detail.code === 4401) { // the session has ended; htmx does not try again
      light("lost", "Signed out"); const t = $("#signin-t"); if (t) $("#notlive")?.replaceChildren(t.content.cloneNode(true)); return;
    }
    lost ||= setTimeout(() => { // each try that fails closes once more: the first one counts
      light("lost", "Not live"); const t = $("#notlive-t"); if (t) $("#notlive")?.replaceChildren(t.content.cloneNode(true));
    }, 2000);
  });

  // Relative times go on by themselves, by the server's clock; the words are those of the server's filter.
  // Each message says what time it is there: a clock may go faster, as in the demo.
  let said = "", skew = 0;
  const clock = () => {
    const now = $("#zone")?.dataset.now || root.dataset.now || "";
    if (now !== said) { said = now; skew = Date.parse(now) - Date.now() || 0; }
  };
  const span = (s) => (s < 60 ? `${Math.floor(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 86400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`);
  const tick = () => clock() || $$("time[data-rel]").forEach((n) => {
    const s = (Date.parse(n.dateTime) - Date.now() - skew) / 1000, a = Math.abs(s);
    let words = a < 1 ? "now" : s < 0 ? `${span(a)} ago` : `in ${span(a)}`;
    if (s > 60 && s < 600) words += ` ${Math.floor(s % 60)} s`;
    if (n.textContent !== words) n.textContent = words;
  });
  // A toast goes after six seconds, unless it is an error, or somebody is on it.
  const fade = () => $$(".toast:not(.bad, :hover, :focus-within)").forEach((n) => { n.dataset.age = 1 + Number(n.dataset.age || 0); if (n.dataset.age > (n.querySelector("form") ? 10 : 6)) n.remove(); });
  // A picture that stands still must not look alive.
  const still = () => ["lost", "paused"].includes($("#live")?.dataset.live);
  setInterval(() => { if (!still()) tick(); fade(); }, 1000);

  // of tabs that are wider than a phone, the open one is in view
  $$(".tabs [aria-current]").forEach((a) => { const all = a.parentElement; all.scrollLeft = a.offsetLeft - all.offsetLeft - 40; });

  // keyboard: off while typing, and off altogether when the reader says so (WCAG 2.1.4)
  let lead = 0;
  const rows = () => $$("table.data tbody tr");
  const move = (d) => {
    const all = rows(); if (!all.length) return;
    const at = all.findIndex((r) => r.classList.contains("cur"));
    all[at]?.classList.remove("cur");
    const row = all[Math.max(0, Math.min(all.length - 1, at + d))];
    row.classList.add("cur"); row.scrollIntoView({ block: "nearest" }); row.querySelector("a.id, .lead a, a")?.focus({ preventScroll: true });
  };
  document.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && e.target.matches("textarea")) { e.target.form?.requestSubmit(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || root.dataset.keys === "off") return;
    if (e.target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) { if (e.key === "Escape") e.target.blur(); return; }
    const k = e.key;
    const page = lead && Date.now() - lead < 1200 && /^[a-z]$/.test(k) && $(`[data-go=${k}]`); // "g" then a letter
    lead = 0;
    if (page) { location.href = page.href; return; }
    const row = $("tr.cur");
    if (k === "g") lead = Date.now();
    else if (k === "/") { e.preventDefault(); ($("#q") || $("#find"))?.focus(); }
    else if (k === "j" || k === "k") { e.preventDefault(); move(k === "j" ? 1 : -1); }
    else if (k === "x" && row) { const b = $("input[name=id]", row); if (b) { b.checked = !b.checked; bulk(); } }
    else if (k === "r" || k === "c") (row || document).querySelector(`[data-key=${k}]`)?.click();
    else if (k === "." && $("#live")) pause();
    else if (k === "u") { cookie("zone", root.dataset.zone === "utc" ? "local" : "utc"); root.dataset.zone = root.dataset.zone === "utc" ? "local" : "utc"; catchUp(); }
    else if (k === "Escape") { $$("input[name=id]:checked").forEach((b) => { b.checked = false; }); bulk(); }
    else if (k === "?") $("#keys")?.showModal();
  });
})();
