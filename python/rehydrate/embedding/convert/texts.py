"""A few texts as agents see them: what conversions are checked on and models are timed on."""

TEXTS = (
    "Yes.",
    "The login test fails since yesterday; can you find out why?",
    "Thanks! Please also add a test for the empty list, and keep the function's name as it is.",
    "I looked at src/auth/session.py. The token is compared before it is decoded, so that a token "
    "with padding never matches. The fix is to decode both sides first and then to compare them "
    "with hmac.compare_digest, which takes the same time whatever the difference.",
    "def mean(values: list[float]) -> float:\n    if not values:\n        raise ValueError('no "
    "values')\n    return sum(values) / len(values)\n",
    '{"order_id": "A-20417", "status": "delayed", "items": [{"sku": "KB-11", "count": 2}, '
    '{"sku": "MS-07", "count": 1}], "eta": "2024-05-17T09:00:00Z"}',
    'Traceback (most recent call last):\n  File "app.py", line 41, in <module>\n    main()\n  '
    'File "app.py", line 22, in main\n    rows = load(sys.argv[1])\nFileNotFoundError: [Errno 2] '
    "No such file or directory: 'data/rows.csv'",
    "Wir fliegen am Freitag nach Lissabon und brauchen noch ein Zimmer für zwei Nächte.",
    "お誕生日おめでとう。 מזל טוב! С днём рождения.",
    "We met at the harbour in the morning and walked along the old wall to the market, where she "
    "bought a red scarf for her sister and I bought bread, olives and two small cups. It began to "
    "rain at noon. We waited under the roof of the station, talked about the summer of the long "
    "strike, about her brother's boat and about the letter that never came, and she said that she "
    "would paint the kitchen yellow if the landlord let her. In the evening the train was late by "
    "forty minutes. At home the cat had slept on the clean laundry again, the soup was cold, and "
    "there was a note from the neighbour about the broken lamp in the yard, which I promised to "
    "repair on Saturday if someone holds the ladder.",
)
