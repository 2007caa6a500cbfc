"""Strava's push subscriptions: one for each application, verified by a challenge, and unsigned events.

An event has to be taken within two seconds and is tried three times at most.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from systems.twins.kit.app import Answer, Call
from systems.twins.kit.courier import Parcel
from systems.twins.strava.errors import error

if TYPE_CHECKING:
    from systems.twins.strava import Strava

PATIENCE = 2
# The second and the third attempt; their times are not documented.
WAITS = [60_000, 300_000]


class Pushes:
    def __init__(self, strava: Strava) -> None:
        self._strava = strava
        self.start_over()

    def start_over(self) -> None:
        self.subscription: dict[str, Any] | None = None

    async def subscribe(self, call: Call) -> Response:
        sent = call.fields()
        self._check(sent)
        if self.subscription is not None:
            return _refused("already exists")
        url, challenge = str(sent.get("callback_url", "")), self._strava.token(length=16)
        verify = {"hub.mode": "subscribe", "hub.challenge": challenge}
        verify["hub.verify_token"] = str(sent.get("verify_token", ""))
        reply = await self._strava.courier.get(url, verify, PATIENCE)
        if reply is None or reply.status_code != 200:
            return _refused("GET to callback URL does not return 200")
        try:
            right = reply.json() == {"hub.challenge": challenge}
        except ValueError:
            right = False
        if not right:
            return _refused("not verifiable")
        self._strava.last_id += 1
        self.subscription = {"id": self._strava.last_id, "callback_url": url}
        return JSONResponse({"id": self._strava.last_id}, 201)

    def show(self, call: Call) -> Response:
        self._check(call.fields())
        if self.subscription is None:
            return JSONResponse([])
        application = {"application_id": int(self._strava.client_id)}
        return JSONResponse([{**self.subscription, **application}])

    def unsubscribe(self, call: Call) -> Response:
        self._check(call.fields())
        if self.subscription is None or call.part("id") != str(self.subscription["id"]):
            return error(404, "Record Not Found", "PushSubscription", "id", "not found")
        self.subscription = None
        return Response(status_code=204)

    def _check(self, sent: dict[str, Any]) -> None:
        given = (str(sent.get("client_id")), sent.get("client_secret"))
        if given != (self._strava.client_id, self._strava.client_secret):
            raise Answer(error(401, "Authorization Error", "Application", "client_id", "invalid"))

    def push(self, owner: int, kind: str, id_: int, aspect: str, updates: dict[str, str]) -> None:
        """Tell the subscriber, if there is one."""
        if self.subscription is None:
            return
        now = self._strava.now()
        event = {
            "object_type": kind,
            "object_id": id_,
            "aspect_type": aspect,
            "updates": updates,
            "owner_id": owner,
            "subscription_id": self.subscription["id"],
            "event_time": now // 1000,
        }
        headers = {"content-type": "application/json"}
        url, body, name = (
            self.subscription["callback_url"],
            json.dumps(event).encode(),
            f"{aspect}/{id_}",
        )
        parcel = Parcel(url, body, lambda _: headers, WAITS, now, name, PATIENCE)
        self._strava.courier.parcels.append(parcel)


def _refused(code: str) -> Response:
    return error(400, "Bad Request", "PushSubscription", "callback url", code)
