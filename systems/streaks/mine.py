"""What a person sees and changes: their own row, found by who is signed in and by nothing that is sent."""

from __future__ import annotations

from duework import Person, Reply, Template, Transaction
from systems.streaks import people
from systems.streaks.accounts import own_row
from systems.streaks.channels import TOPIC
from systems.streaks.pages import Back, Form, enqueue_test, show
from systems.streaks.part import part


@part.page("/mine", title="My streak", auth="person", live=(TOPIC,), nav=False)
def mine(person: Person) -> Template:
    """How it stands, the last year, what was sent, settings."""
    return show(own_row(part.app, person), "/streaks/mine", mine=True)


@part.action("/mine/settings", auth="person")
def save_mine(person: Person, form: Form, tx: Transaction) -> str:
    """Change what was given."""
    people.change(tx, own_row(tx, person).id, form.wishes(), now=part.app.now())
    return "Saved"


@part.action("/mine/back", auth="person")
def come_back_mine(person: Person, form: Back, tx: Transaction) -> str:
    """Take holidays back."""
    people.come_back(tx, own_row(tx, person).id, form.first)
    return "Taken back"


@part.action("/mine/test", auth="person")
def test_mine(person: Person, tx: Transaction) -> str:
    """One message by each channel, once a minute at most."""
    return enqueue_test(tx, own_row(tx, person))


@part.action("/mine/pause", auth="person")
def pause_mine(person: Person, tx: Transaction) -> str:
    """No more checks and messages, until they are resumed."""
    people.set_active(tx, own_row(tx, person).id, active=False, now=part.app.now())
    return "Paused: nothing is checked, and nothing is sent"


@part.action("/mine/resume", auth="person")
def resume_mine(person: Person, tx: Transaction) -> str:
    """Go on from the next planned time."""
    people.set_active(tx, own_row(tx, person).id, active=True, now=part.app.now())
    return "It goes on"


@part.action("/mine/delete", auth="person", confirm="Delete your account with tokens and history?")
def delete_mine(person: Person) -> Reply:
    """Nothing of the person stays, and every session of theirs ends."""
    with part.app.transaction() as tx:
        people.delete(tx, own_row(tx, person).id)
    # A crash here leaves a session that opens nothing: the row is gone.
    part.people.forget(person.id)
    return Reply(303, headers={"location": "/streaks/sign-in"})
