"""Telegram's Bot API: messages to people who may have blocked the bot, and no key to ask by.

Every error is `{"ok": false, "error_code": …, "description": …}` with the same HTTP status. A chat is
a person, a group or a channel, and has a state: whoever blocked the bot, left or never wrote to it
cannot be reached, and that is permanent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call, Door, Twin
from systems.twins.kit.courier import Parcel
from systems.twins.kit.limits import Window, Windows, whole_seconds
from systems.twins.telegram.markup import BadMarkup, plain

LONGEST = 4096
TOKEN = re.compile(r"\d+:[A-Za-z0-9_-]{20,}")

UNREACHABLE = {
    "blocked": "Forbidden: bot was blocked by the user",
    "deactivated": "Forbidden: user is deactivated",
    "kicked": "Forbidden: bot was kicked from the group chat",
    "unstarted": "Forbidden: bot can't initiate conversation with a user",
}
STATES = ("open", *UNREACHABLE)


@dataclass(slots=True)
class Bot:
    id: int
    username: str
    first_name: str = "Streak"
    updates: list[dict[str, Any]] = field(default_factory=list)
    webhook: str = ""
    secret: str = ""


@dataclass(slots=True)
class Chat:
    id: int
    type: str = "private"
    name: str = "Fern"
    username: str | None = None
    state: str = "open"
    migrated_to: int | None = None

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "type": self.type}
        found["first_name" if self.type == "private" else "title"] = self.name
        if self.username:
            found["username"] = self.username
        return found


class Telegram(Twin):
    name = "telegram"
    about: ClassVar = "Bot API: sendMessage, getMe, getUpdates, setWebhook"

    def make_doors(self) -> list[Door]:
        path = "/bot{token}/{method}"
        return [Door("bot", "POST", path, self._call), Door("bot", "GET", path, self._call)]

    def start_over(self) -> None:
        self.bots: dict[str, Bot] = {}
        self.chats: dict[int, Chat] = {}
        self.chat_limit, self.group_limit, self.overall_limit = 1, 20, 30
        self._chats = Windows(lambda: Window(self.chat_limit, 1000))
        self._groups = Windows(lambda: Window(self.group_limit, 60_000))
        self._bots = Windows(lambda: Window(self.overall_limit, 1000))
        self._last_message = self._last_update = 0
        self.add_bot("900001:AAdemo-streak-bot-token-0123456789ab", "demo_streak_bot")
        for n in range(1, 61):
            self.add_chat(555_000 + n)

    def samples(self) -> dict[str, str]:
        return {"token": next(iter(self.bots)), "chat_id": str(next(iter(self.chats)))}

    def switches(self) -> Mapping[str, Callable[..., object]]:
        return {
            "add_bot": self.add_bot,
            "add_chat": self.add_chat,
            "set_state": self.set_state,
            "migrate": self.migrate,
            "say": self.say,
            "set_limits": self.set_limits,
        }

    # Switches.

    def add_bot(self, token: str, username: str) -> None:
        if not TOKEN.fullmatch(token):
            raise ValueError("a token is digits, a colon and at least 20 letters")
        self.bots[token] = Bot(int(token.partition(":")[0]), username)

    def add_chat(
        self,
        id: int,
        type: str = "private",
        name: str = "Fern",
        username: str | None = None,
    ) -> None:
        self.chats[id] = Chat(id, type, name, username)

    def set_state(self, id: int, state: str) -> None:
        """One of open, blocked, deactivated, kicked, unstarted."""
        if state not in STATES:
            raise ValueError(f"{state!r} is no state; there are {', '.join(STATES)}")
        self.chats[id].state = state

    def migrate(self, id: int, to: int) -> None:
        """A group becomes a supergroup with another id."""
        self.chats[id].migrated_to = to
        self.add_chat(to, "supergroup", self.chats[id].name)

    def say(self, id: int, text: str = "/start", token: str | None = None) -> None:
        """Somebody writes to a bot, which learns the chat's id from it and may answer."""
        bot = self.bots[token or next(iter(self.bots))]
        chat = self.chats.setdefault(id, Chat(id))
        chat.state = "open"
        self._last_update += 1
        self._last_message += 1
        message = {
            "message_id": self._last_message,
            "from": {"id": id, "is_bot": False, "first_name": chat.name},
            "chat": chat.as_json(),
            "date": self.now() // 1000,
            "text": text,
        }
        update = {"update_id": self._last_update, "message": message}
        if not bot.webhook:
            bot.updates.append(update)
            return
        headers = {"content-type": "application/json"}
        if bot.secret:
            headers["x-telegram-bot-api-secret-token"] = bot.secret
        body = json.dumps(update).encode()
        waits = [1000, 2000, 4000, 8000]
        self.courier.parcels.append(
            Parcel(bot.webhook, body, lambda _: headers, waits, self.now(), str(self._last_update))
        )

    def set_limits(
        self, chat: int | None = None, group: int | None = None, overall: int | None = None
    ) -> None:
        """Other limits, for windows that begin from now on."""
        self.chat_limit = self.chat_limit if chat is None else chat
        self.group_limit = self.group_limit if group is None else group
        self.overall_limit = self.overall_limit if overall is None else overall

    # The API.

    def refusal(self, status: int) -> Response:
        if status == 429:
            return _too_many(1)
        texts = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
        return _error(status, texts.get(status, "Internal Server Error"))

    def _call(self, call: Call) -> Response:
        token, method = call.part("token"), call.part("method").lower()
        call.note(method=call.part("method"))
        if not TOKEN.fullmatch(token):
            return _error(401, "Unauthorized: invalid token specified")
        bot = self.bots.get(token)
        if bot is None:
            return self.refusal(401)
        methods: dict[str, Callable[[Call, Bot, dict[str, Any]], Any]] = {
            "sendmessage": self._send,
            "getme": self._me,
            "getchat": lambda call, bot, sent: self._chat(call, sent).as_json(),  # noqa: ARG005
            "getupdates": self._updates,
            "setwebhook": self._set_webhook,
            "deletewebhook": self._delete_webhook,
        }
        if method not in methods:
            return self.refusal(404)
        return JSONResponse({"ok": True, "result": methods[method](call, bot, call.fields())})

    def _send(self, call: Call, bot: Bot, sent: dict[str, Any]) -> dict[str, Any]:
        text = _text(sent)
        chat = self._chat(call, sent)
        call.note(chat=chat.id)
        if chat.migrated_to is not None:
            description = "Bad Request: group chat was upgraded to a supergroup chat"
            more = {"migrate_to_chat_id": chat.migrated_to}
            raise Answer(_error(400, description, more))
        if chat.state in UNREACHABLE:
            raise Answer(_error(403, UNREACHABLE[chat.state]))
        self._meter(call, bot, chat)
        self._last_message += 1
        message = {
            "message_id": self._last_message,
            "from": self._me(call, bot, {}, short=True),
            "chat": chat.as_json(),
            "date": call.now // 1000,
            "text": text,
        }
        facts = {"chat": chat.id, "message": self._last_message, "text": text}
        if sent.get("disable_notification") in {True, "true"}:
            facts["silent"] = True
        self.ledger.add("message", call.now, bot=bot.username, **facts)
        return message

    def _meter(self, call: Call, bot: Bot, chat: Chat) -> None:
        windows = [self._bots[bot.id], self._chats[chat.id]]
        if chat.type != "private":
            windows.append(self._groups[chat.id])
        for window in windows:
            if window.full(call.now):
                call.limited(window)
                raise Answer(_too_many(whole_seconds(window.wait(call.now))))
        for window in windows:
            window.use(call.now)

    def _chat(self, call: Call, sent: dict[str, Any]) -> Chat:
        given = str(sent.get("chat_id", "")).strip()
        if not given:
            raise Answer(_error(400, "Bad Request: chat_id is empty"))
        found = None
        if given.startswith("@"):
            named = [chat for chat in self.chats.values() if chat.username == given[1:]]
            found = named[0] if named else None
        elif re.fullmatch(r"-?[0-9]{1,18}", given):
            found = self.chats.get(int(given))
        if found is None:
            raise Answer(_error(400, "Bad Request: chat not found"))
        return found

    def _me(
        self,
        call: Call,
        bot: Bot,
        sent: dict[str, Any],
        *,
        short: bool = False,
    ) -> dict[str, Any]:
        names = {"first_name": bot.first_name, "username": bot.username}
        found = {"id": bot.id, "is_bot": True, **names}
        more = {"can_join_groups": True, "can_read_all_group_messages": False}
        return found if short else {**found, **more, "supports_inline_queries": False}

    def _updates(self, call: Call, bot: Bot, sent: dict[str, Any]) -> list[dict[str, Any]]:
        if bot.webhook:
            text = (
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook "
            )
            raise Answer(_error(409, text + "to delete the webhook first"))
        offset, limit = _number(sent, "offset", 0), _number(sent, "limit", 100)
        if offset:
            # Whoever asks from an offset has read what came before.
            bot.updates = [update for update in bot.updates if update["update_id"] >= offset]
        return bot.updates[:limit]

    def _set_webhook(self, call: Call, bot: Bot, sent: dict[str, Any]) -> bool:
        bot.webhook, bot.secret = str(sent.get("url") or ""), str(sent.get("secret_token") or "")
        return True

    def _delete_webhook(self, call: Call, bot: Bot, sent: dict[str, Any]) -> bool:
        bot.webhook = bot.secret = ""
        return True


def _number(sent: dict[str, Any], name: str, otherwise: int) -> int:
    text = str(sent.get(name) or otherwise)
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise Answer(_error(400, f"Bad Request: {name} is no number"))
    return int(text)


def _text(sent: dict[str, Any]) -> str:
    text = sent.get("text")
    if not isinstance(text, str) or not text.strip():
        raise Answer(_error(400, "Bad Request: message text is empty"))
    try:
        shown = plain(text, str(sent.get("parse_mode") or ""))
    except BadMarkup as problem:
        raise Answer(_error(400, f"Bad Request: can't parse entities: {problem}")) from None
    if not shown.strip():
        raise Answer(_error(400, "Bad Request: message text is empty"))
    if len(shown) > LONGEST:
        raise Answer(_error(400, "Bad Request: message is too long"))
    return shown


def _error(code: int, description: str, parameters: dict[str, Any] | None = None) -> Response:
    body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
    if parameters is not None:
        body["parameters"] = parameters
    return JSONResponse(body, code)


def _too_many(seconds: int) -> Response:
    text = f"Too Many Requests: retry after {seconds}"
    reply = _error(429, text, {"retry_after": seconds})
    reply.headers["retry-after"] = str(seconds)
    return reply
