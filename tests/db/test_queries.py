import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer

from duework.db.queries import for_psycopg, load, parameters, script
from duework.errors import UsageError

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
# Text in which nothing looks like a parameter, whatever it is put into.
TEXT = st.text(string.ascii_letters + string.digits + " :%;-/*\n", max_size=30)


def as_sent(sql: str, values: dict[str, object]) -> str:
    """What psycopg makes of a rewritten text: `$1` for parameters, `%` for `%%`."""
    query = PostgresQuery(Transformer())
    query.convert(for_psycopg(sql), values)
    return query.query.decode()


@pytest.mark.parametrize(
    ("sql", "names", "rewritten"),
    [
        ("select :a", ("a",), "select %(a)s"),
        ("select :a, :b, :a", ("a", "b"), "select %(a)s, %(b)s, %(a)s"),
        ("select ':a', :b", ("b",), "select ':a', %(b)s"),
        ("select 'it''s :a', :b", ("b",), "select 'it''s :a', %(b)s"),
        ('select ":a" from t', (), 'select ":a" from t'),
        ("select 1 -- :a\n, :b", ("b",), "select 1 -- :a\n, %(b)s"),
        ("select /* :a\n */ :b", ("b",), "select /* :a\n */ %(b)s"),
        ("select :a::bigint[]", ("a",), "select %(a)s::bigint[]"),
        ("select x::text, :a", ("a",), "select x::text, %(a)s"),
        ("select $$ :a $$, :b", ("b",), "select $$ :a $$, %(b)s"),
        ("select $x$ :a $$ $x$, :b", ("b",), "select $x$ :a $$ $x$, %(b)s"),
        ("select 5 % :a", ("a",), "select 5 %% %(a)s"),
        ("select '100%', \"a%\" -- %", (), "select '100%%', \"a%%\" -- %%"),
        ("select $$ % $$", (), "select $$ %% $$"),
        ("select (:a)", ("a",), "select (%(a)s)"),
        ("select a[1:2]", (), "select a[1:2]"),
        (r"select E'it\'s :a', :b", ("b",), r"select E'it\'s :a', %(b)s"),
        ("select name'x' || :b", ("b",), "select name'x' || %(b)s"),
    ],
)
def test_parameters_are_found_and_rewritten(
    sql: str, names: tuple[str, ...], rewritten: str
) -> None:
    assert parameters(sql) == names
    assert for_psycopg(sql) == rewritten


@given(st.lists(NAMES, max_size=6), TEXT)
def test_a_parameter_is_found_once_whatever_is_quoted_beside_it(
    names: list[str], text: str
) -> None:
    string_, comment = text.replace("'", "''"), text.replace("*/", "").rstrip("*")
    sql = ", ".join(f"'{string_}' /*{comment}*/ :{name}" for name in names)

    assert parameters(sql) == tuple(dict.fromkeys(names))


@given(TEXT)
def test_what_is_quoted_reaches_the_server_as_it_is(text: str) -> None:
    line = text.replace("\n", "")
    for sql in (f"select '{text}'", f'select 1 as "x{text}"', f"select $q${text}$q$", f"--{line}"):
        assert as_sent(sql, {}) == sql


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_every_parameter_becomes_one_of_psycopg(names: list[str]) -> None:
    sql = "select " + ", ".join(f":{name}::text" for name in names)

    sent = as_sent(sql, dict.fromkeys(names, "x"))

    assert sent == "select " + ", ".join(f"${i}::text" for i in range(1, len(names) + 1))


@given(st.lists(TEXT.filter(lambda text: text.strip("; \n")), max_size=5))
def test_a_script_is_split_only_between_statements(texts: list[str]) -> None:
    statements = [f"select '{text}'" for text in texts]

    assert script(";\n".join(statements) + ";") == statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", 0),
        ("-- only; a comment\n", 0),
        ("/* only; a\n comment */", 0),
        ("create table a (n int); -- a; b\ncreate table b (n int);", 2),
        ("do $$ begin perform 1; end $$; select 1", 2),
        ('create table "a;b" (n int)', 1),
    ],
)
def test_comments_and_quotes_do_not_split_a_script(text: str, statements: int) -> None:
    assert len(script(text)) == statements


def test_overrides_must_fit_what_they_override(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some_queries"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "good.sql").write_text("-- name: one\nselect :a;\n\n-- name: two\nselect 2\n")
    (folder / "good.postgres.sql").write_text("-- name: one\nselect :a::bigint\n")
    (folder / "stray.sql").write_text("-- name: one\nselect 1\n")
    (folder / "stray.postgres.sql").write_text("-- name: other\nselect 1\n")
    (folder / "unlike.sql").write_text("-- name: one\nselect :a\n")
    (folder / "unlike.postgres.sql").write_text("-- name: one\nselect :b\n")
    monkeypatch.syspath_prepend(tmp_path)

    good = load("some_queries", "good")

    assert (good.one.sqlite, good.one.postgres) == ("select +:a", "select %(a)s::bigint")
    assert (good.two.sqlite, good.two.postgres, good.two.names) == ("select 2", "select 2", ())
    with pytest.raises(UsageError, match="not there"):
        load("some_queries", "stray")
    with pytest.raises(UsageError, match="other parameters"):
        load("some_queries", "unlike")
