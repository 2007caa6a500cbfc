"""What is written in bulk, and the statements that are longer than a line."""

from __future__ import annotations

from systems.strides.bulk import Upsert
from systems.strides.races import RACE_COLUMNS

ACTIVITIES = Upsert(
    "strides_activity",
    ("athlete_id", "id", "start", "day", "name", "sport", "distance", "moving_time", "seen"),
    """(athlete_id, id) do update set
    start = excluded.start, day = excluded.day, name = excluded.name, sport = excluded.sport,
    distance = excluded.distance, moving_time = excluded.moving_time, seen = excluded.seen""",
)
# What the person has corrected stays; everything else is Strava's. An upsert keeps the row that is there.
RACES = Upsert(
    "strides_race",
    RACE_COLUMNS,
    """(athlete_id, strava_activity_id) do update set
    start = excluded.start, date = excluded.date, name = excluded.name,
    elevation_gain = excluded.elevation_gain, average_heartrate = excluded.average_heartrate,
    max_heartrate = excluded.max_heartrate, polyline = excluded.polyline, seen = excluded.seen,
    distance = case strides_race.edited when 1 then strides_race.distance else excluded.distance end,
    distance_class = case strides_race.edited
        when 1 then strides_race.distance_class else excluded.distance_class end,
    elapsed_time = case strides_race.edited
        when 1 then strides_race.elapsed_time else excluded.elapsed_time end,
    moving_time = case strides_race.edited
        when 1 then strides_race.moving_time else excluded.moving_time end,
    event_name = case strides_race.edited
        when 1 then strides_race.event_name else excluded.event_name end,
    known_by = case strides_race.edited
        when 1 then strides_race.known_by else excluded.known_by end""",
)
# Recordings from files have ids below zero; these are what Strava has told us of, too.
DOUBLE_RACES = """
delete from strides_race where athlete_id = :athlete and strava_activity_id < 0 and edited = 0
and exists (select 1 from strides_activity s where s.athlete_id = :athlete and s.id > 0
    and s.start between strides_race.start - 120 and strides_race.start + 120)
"""
DOUBLE_ACTIVITIES = """
delete from strides_activity where athlete_id = :athlete and id < 0
and exists (select 1 from strides_activity s where s.athlete_id = :athlete and s.id > 0
    and s.start between strides_activity.start - 120 and strides_activity.start + 120)
"""
PUT_LOG = """
insert into strides_log (session, athlete_id, at, level, message)
values (:session, :athlete, :at, :level, :message)
"""
