"""Text as it is in real layers: names in many scripts, and notes that need quoting."""

from __future__ import annotations

# All in Unicode's composed form (NFC); the name of each script after ISO 15924.
NAMES = (
    ("Port Ellery", "Latn"),
    ("Żółkiew Mała", "Latn"),
    ("Sønderhåb", "Latn"),
    ("Thành Phú Đông", "Latn"),
    ("Нова Долина", "Cyrl"),
    ("Αγία Μαρίνα", "Grek"),
    ("وادي النخيل", "Arab"),
    ("גבעת האלה", "Hebr"),
    ("नया गाँव", "Deva"),
    ("ডিঙাপাড়া", "Beng"),
    ("เมืองใหม่", "Thai"),
    ("አዲስ ሜዳ", "Ethi"),
    ("新河镇", "Hans"),
    ("みなと町", "Jpan"),
    ("새고을", "Kore"),
    ("ნაძვნარი", "Geor"),
    ("Նոր Այգի", "Armn"),
)
NOTES = (
    'the "old" quarter, rebuilt; see plan 7',
    "two lines:\nthe second one",
    "100 % of <lots> & 'yards' surveyed\t(tab)",
    "água, façade, naïve – ½ km² · 😀",
)
ROADS = ("Hauptstraße", "Rue de l'Église", "Mill Lane", "улица Мира", "शांति मार्ग", "شارع البحر", "河边路")
