"""Words that invented apps are made of: countries, genres, themes, and names."""

from __future__ import annotations

COUNTRIES = {"us": 1.0, "gb": 0.22, "de": 0.18, "au": 0.09, "ca": 0.12, "cn": 0.5, "jp": 0.3}
CURRENCIES = {
    "us": "USD",
    "gb": "GBP",
    "de": "EUR",
    "au": "AUD",
    "ca": "CAD",
    "cn": "CNY",
    "jp": "JPY",
}

GENRES = {
    6018: "Books",
    6000: "Business",
    6017: "Education",
    6016: "Entertainment",
    6015: "Finance",
    6023: "Food & Drink",
    6014: "Games",
    6013: "Health & Fitness",
    6012: "Lifestyle",
    6021: "Magazines & Newspapers",
    6020: "Medical",
    6011: "Music",
    6010: "Navigation",
    6009: "News",
    6008: "Photo & Video",
    6007: "Productivity",
    6006: "Reference",
    6024: "Shopping",
    6005: "Social Networking",
    6004: "Sports",
    6003: "Travel",
    6002: "Utilities",
    6001: "Weather",
    6026: "Developer Tools",
    6027: "Graphics & Design",
    6061: "Kids",
    7003: "Casual",
    7012: "Puzzle",
    7014: "Role Playing",
    7017: "Strategy",
    7019: "Word",
}
# Some genres have others inside.
WITHIN = {6014: (7003, 7012, 7014, 7017, 7019), 6017: (6061,)}

# A theme: its genre, its words, how many of a thousand apps it has, and how happy its users are.
THEMES: tuple[tuple[int, str, int, float], ...] = (
    (6013, "sleep timer sounds noise rest night", 40, 3.4),
    (6013, "workout fitness gym training planner strength", 80, 4.5),
    (6013, "meditation calm breathing mindful focus", 45, 4.6),
    (6013, "fasting water diet calorie tracker", 50, 4.3),
    (6013, "running pace marathon route gps", 35, 4.4),
    (6007, "todo list tasks reminder planner", 85, 4.5),
    (6007, "notes journal diary writing markdown", 55, 4.4),
    (6007, "habit streak tracker routine daily", 45, 4.2),
    (6007, "pomodoro focus timer study deep", 30, 4.1),
    (6002, "scanner pdf document sign fax", 60, 3.6),
    (6002, "vpn proxy private secure browser", 45, 3.9),
    (6002, "calculator converter unit currency", 40, 4.3),
    (6002, "qr barcode reader code", 25, 3.2),
    (6008, "photo editor filter collage retouch", 70, 4.2),
    (6008, "video editor cut reel subtitles", 45, 4.0),
    (6015, "budget expense money tracker bills", 50, 4.2),
    (6015, "stock portfolio dividend crypto watch", 35, 3.8),
    (6017, "language vocabulary flashcards spanish words", 50, 4.6),
    (6017, "math homework solver algebra", 25, 4.1),
    (6017, "piano music theory ear training", 20, 4.3),
    (6023, "recipe meal planner grocery cooking", 45, 4.4),
    (6020, "medication pill reminder dose", 20, 4.5),
    (6020, "blood pressure glucose log heart", 25, 3.5),
    (6010, "parking car finder map offline", 20, 3.3),
    (6003, "travel packing trip itinerary list", 30, 4.0),
    (6001, "weather radar rain storm forecast", 30, 4.1),
    (6012, "plant care watering garden", 20, 3.1),
    (6012, "baby feeding diaper sleep log", 25, 4.6),
    (6014, "puzzle blocks merge match", 95, 4.4),
    (6014, "word crossword guess letters", 45, 4.5),
    (6011, "metronome tuner guitar chords", 25, 4.4),
    (6004, "golf tennis score padel club", 20, 3.7),
    (6026, "ssh terminal git code editor", 15, 4.3),
    (6027, "font sticker logo maker design", 25, 3.5),
    (6005, "chat groups friends events", 30, 3.6),
)
FIRST: tuple[str, ...] = (
    "Dozy",
    "Bright",
    "Tiny",
    "Swift",
    "Calm",
    "Pocket",
    "Daily",
    "Smart",
    "Blue",
    "Lumen",
)
FIRST += ("Nova", "Pine", "Echo", "Zen", "Hello", "Simple", "Quiet", "Fox", "Iris", "Orbit")
MAKERS = ("Labs", "Studio", "Apps", "Works", "Software", "GmbH", "Interactive", "Collective")
# The first of the names that are drawn only where a catalogue is larger than a few apps.
MORE = ("Café", "Über", "Señor", "Погода", "天気", "날씨")
SYLLABLES = (
    "ba",
    "co",
    "du",
    "fe",
    "gi",
    "ho",
    "ju",
    "ka",
    "lu",
    "mo",
    "ni",
    "po",
    "ri",
    "su",
    "te",
    "vo",
)
