"""Why a file is not taken: each reason has a type and says what to do; nothing of the file is stored."""

from __future__ import annotations

from duework import UsageError


class FileRefused(UsageError):
    """A file that is not taken."""


class NotUnderstood(FileRefused):
    """It is none of the formats, or is damaged."""


class TooLarge(FileRefused):
    """More bytes than a recording has."""


class ZipBomb(FileRefused):
    """It unpacks to far more than it is."""


class OutsideTheArchive(FileRefused):
    """A name in the archive, or a link in the folder, leads out of it."""


class EntitiesRefused(FileRefused):
    """XML with a document type: recordings need none, and attacks do."""


class WrongTime(FileRefused):
    """A time without a zone, a zone that does not exist, or a year that cannot be."""
