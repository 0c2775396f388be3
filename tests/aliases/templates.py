"""The sentences of the alias set, by genre and by what they tell of.

Slots: {S} the subject told of, {E} its company or body, {P} a place of its world, {Q} a person of its world; these
become mentions. {role}, {thing}, {word}, {other}, {field}, {region}, {year} and {n} are plain text. Verbs after a
product stand in the past tense, so that a plural form fits as well.
"""

HEADINGS = {
    "handbook": (
        "Staff handbook: {field} in {region}",
        "Working for {E}: a guide for new staff",
        "House rules, part {n}",
    ),
    "release": ("Release notes: {S}", "What changed in {S}", "Product news {year}, sheet {n}"),
    "travel": ("A weekend in {region}", "Three days around {P}", "Visiting {region}: places worth the detour"),
    "minutes": ("Minutes of meeting {n}, {year}", "Minutes: {field} committee of {region}", "Meeting of {E}, {year}"),
    "biography": ("A life in {field}", "Portrait: {Q}", "People of {region}, number {n}"),
    "report": ("Project report {n}: {field}", "Progress of the {region} project in {year}", "Yearly report of {E}"),
    "incident": ("Incident report {n}", "What went wrong near {P}", "Fault log {year}: {field}"),
    "catalogue": ("Catalogue {year}: {field}", "Price list {n} of {E}", "Spring catalogue for {region}"),
}

INTRODUCTIONS = {
    "handbook": {
        "person": (
            "Questions about the {word} go to {S}, {role} at {E}.",
            "Every newcomer to {field} spends a first week with {S}, the {role} for {region}.",
        ),
        "product": (
            "Before anyone touches {S}, a {thing} from {E}, the safety sheet must be read.",
            "In {region} our crews worked with {S} ({thing}) from {year} on.",
        ),
        "place": (
            "Our second office stands in {region}, close to {S}, the {thing} that {field} made known.",
            "Travel to {S} ({thing}, {region}) is paid when the {word} calls for it.",
        ),
        "organisation": (
            "Rules on the {word} are agreed with {S}, the voice of {field} in {region}.",
            "Staff who move between us and {S} keep their years of service in {field}.",
        ),
    },
    "release": {
        "person": (
            "Thanks are due to {S}, {role} at {E}, for weeks of patient tests.",
            "The fault in the {word} was found by {S}, our {role} in {region}.",
        ),
        "product": (
            "With this release {S} handled the {word} without a restart.",
            "{E} shipped {S}, the {thing} for {field}, in the spring of {year}.",
        ),
        "place": (
            "Field trials ran at {S}, the {thing} in {region}, for {n} days.",
            "Customers around {S} in {region} asked for a better {word}, and now have it.",
        ),
        "organisation": (
            "A certificate for use in {field} was granted by {S} in {year}.",
            "Export files follow the {word} format that {S} of {region} published.",
        ),
    },
    "travel": {
        "person": (
            "If the door is open, ask for {S}, a retired {role} who tells {region}'s best stories about {field}.",
            "Tours on {field} are led by {S}, once {role} with {E}.",
        ),
        "product": (
            "In a window of the {field} museum you will see {S}, the {thing} that made {E} famous.",
            "Visitors may try {S}, a {thing}, in the workshop beside the {word} display.",
        ),
        "place": (
            "Few travellers to {region} leave out {S}, a {thing} shaped by {field}.",
            "Take the early bus to {S}; this {thing} of {region} is at its best before the midday crowds.",
        ),
        "organisation": (
            "The old {word} hall belongs to {S}, which has looked after {field} in {region} since {year}.",
            "Tickets for the {field} exhibition are sold by {S} near the station.",
        ),
    },
    "minutes": {
        "person": (
            "{S} ({role}, {E}) presented the figures on the {word}.",
            "It was agreed that {S}, as {role}, writes to the {region} office about the {other}.",
        ),
        "product": (
            "The committee for {field} ordered {n} more of {S}, the {thing} by {E}.",
            "A complaint about {S}, the {thing}, and its {word} was read out.",
        ),
        "place": (
            "The next {field} meeting takes place at {S}, the {thing} in {region}.",
            "A grant of {n} thousand for the {word} at {S} ({region}) was approved.",
        ),
        "organisation": (
            "A letter from {S} about {field} was taken as read.",
            "The chair reported on talks with {S} in {region} over the {word}.",
        ),
    },
    "biography": {
        "person": (
            "{S} came to {field} in {year} and rose to {role} at {E}.",
            "Born in {region}, {S} worked as {role} and wrote {n} papers on the {word}.",
        ),
        "product": (
            "The years of work on the {word} led to {S}, a {thing} sold by {E}.",
            "Colleagues in {field} remember the week when {S}, the {thing}, first ran.",
        ),
        "place": (
            "Childhood summers were spent at {S}, a {thing} in {region}.",
            "The family had settled near {S} ({region}), where {field} gave work to everyone.",
        ),
        "organisation": (
            "A first post in {field} was offered by {S} in {year}.",
            "For {n} years the archive of {S} in {region} was a second home.",
        ),
    },
    "report": {
        "person": (
            "The {word} study was led by {S}, {role} at {E}, with a staff of {n}.",
            "In {region} the work on {field} is headed by {S}, {role}.",
        ),
        "product": (
            "We measured {S}, the {thing} of {E}, against the older {word}.",
            "After {n} hours of {field} work, {S} needed no repair.",
        ),
        "place": (
            "Site two lies at {S}, a {thing} in {region}, where the {word} was surveyed in {year}.",
            "Costs for {field} rose most at {S} in {region}.",
        ),
        "organisation": (
            "Funds came from {S}, which backs {field} across {region}.",
            "The {word} data were checked by {S} in {year} and found sound.",
        ),
    },
    "incident": {
        "person": (
            "At the alarm {S}, {role} on duty for {E}, stopped all work on the {word}.",
            "The first account was given by {S}, {role}, who knows {field} in {region} well.",
        ),
        "product": (
            "The log of {S}, a {thing} by {E}, showed a fault in the {word}.",
            "During {field} work {S} stopped {n} minutes after the start.",
        ),
        "place": (
            "The event took place near {S}, the {thing} in {region}.",
            "Roads to {S} ({region}) stayed shut while the {word} was made safe.",
        ),
        "organisation": (
            "As the rules for {field} ask, {S} was told within {n} minutes.",
            "An inspector sent by {S} to {region} looked at the {word}.",
        ),
    },
    "catalogue": {
        "person": (
            "Advice on the {word} is given by {S}, {role} at {E}.",
            "This page was checked by {S}, our {role} for {region}.",
        ),
        "product": (
            "**{S}**, {thing} for {field}, from {E}; order number {n}.",
            "New in {year}: {S}, the {thing} that keeps the {word} in order.",
        ),
        "place": (
            "Goods for {field} leave our store at {S} ({thing}, {region}) each morning.",
            "Customers in {region} may collect orders at {S}, by the {word} shop.",
        ),
        "organisation": (
            "All {field} goods on this page carry the mark of {S}.",
            "Members of {S} in {region} pay {n} per cent less.",
        ),
    },
}

BARE = {
    "person": (
        "Later in the day {S} called.",
        "Nobody was surprised that {S} disagreed.",
        "A note by {S} is attached.",
    ),
    "product": (
        "Most buyers asked for {S} by name.",
        "Spare parts for {S} arrived late.",
        "Two boxes of {S} went missing.",
    ),
    "place": ("Snow fell at {S} that night.", "The road from {S} was long.", "Everyone met again at {S}."),
    "organisation": ("An answer from {S} is expected.", "The invoice went to {S}.", "A guest from {S} listened."),
}

FOLLOW_UPS = {
    "person": (
        "According to {S}, the {word} can wait until next year.",
        "{S}'s view of the {other} found wide support.",
        "The plan that {S} drew up covers the {word} and the {other}.",
        "Together with {Q}, {S} checked the {word} twice.",
        "On that point {S} would not be moved.",
    ),
    "product": (
        "Users liked {S} for the simple {word}.",
        "{S}'s manual explains the {other} on page {n}.",
        "Repairs of {S} took less than an hour.",
        "With {S} the {word} gave no more trouble.",
        "We compared {S} with what came before.",
    ),
    "place": (
        "From {S} it is a short walk to the {word}.",
        "{S}'s people have lived with {field} for generations.",
        "Rooms near {S} are cheap outside the season.",
        "The view over {S} rewards an early start.",
        "Around {S} the {other} is talked of daily.",
    ),
    "organisation": (
        "{S}'s rules on the {word} date from {year}.",
        "The budget of {S} grew by {n} per cent.",
        "Talks between {S} and {E} went on all winter.",
        "In its yearly letter {S} praised the work at {P}.",
        "Without {S} the {other} would have no standard.",
    ),
}

DEFINITIONS = (
    "{L} ({A}) speaks for {field} in {region}.",
    "Since {year}, {L}, known as {A}, has set the rules for the {word}.",
    "{A}, short for {L}, watches over {field}.",
    "Members of {L} ({A}) met to discuss the {word}.",
    "The name {L} is mostly cut to {A} by people in {field}.",
)

CONTINUATIONS = {
    "handbook": (
        "Please keep the {word} clean and the {other} dry.",
        "Holidays are agreed a month ahead, and never in the week of the yearly count.",
        "Anyone who works on the {other} wears gloves.",
    ),
    "release": (
        "The {word} now starts in half the time.",
        "Known limits: the {other} still needs to be set by hand.",
        "No settings are lost when you move to this version.",
    ),
    "travel": (
        "Bring good shoes, since the paths are steep after rain.",
        "The small museum explains the {word} and the {other} with much humour.",
        "Lunch is served until three, and the soup is excellent.",
    ),
    "minutes": (
        "The meeting was opened at nine and the agenda accepted.",
        "There was a long exchange about the {word}; no vote was taken.",
        "Action: figures on the {other} to be sent round before the next meeting.",
    ),
    "biography": (
        "Those who were there speak of long evenings and weak coffee.",
        "The {word} stayed a lifelong interest.",
        "A small book on the {other} followed, and sold badly.",
    ),
    "report": (
        "The schedule slipped by {n} days, mostly because of the {word}.",
        "Spending stayed within the limits set at the start.",
        "A second survey of the {other} is planned.",
    ),
    "incident": (
        "Nobody was hurt.",
        "The {word} had been inspected the week before without remark.",
        "As a lasting measure, the {other} will be checked each month.",
    ),
    "catalogue": (
        "Prices hold until the end of the year and include packing.",
        "Each {word} is tested before it leaves the house.",
        "Ask for the separate leaflet about the {other}.",
    ),
}

PRIZE = (
    "For work on the {word}, {S} went to {Q} in {year}.",
    "{S}, given each year for {field} in {region}, drew {n} entries.",
    "The jury of {S} read {n} papers on the {other} from {region}.",
    "In {year} {S} for {field} was handed over at {P}.",
    "A young team from {E} hopes for {S} and a year of paid work on the {word}.",
)
