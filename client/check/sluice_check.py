"""Checks the receipts and statements of a Sluice export, without the service.
docs/receipts.md describes the bytes, and what is checked.

python3 sluice_check.py PLACE [--since DATE] [--key KEY]... [--head NUMBER:DIGEST] [--deep]
    [--document FILE] [--timeout SECONDS]

It needs Python 3.9. It exits with 0: all is right, 1: something is wrong, 2: not checked.
"""
import argparse, collections, concurrent.futures, hashlib, json, os, re, sys, time, zlib
import urllib.error, urllib.parse, urllib.request
class Wrong(Exception): """Something is not as it was signed."""
class NotChecked(Exception): """It cannot be said whether it is right."""
def must(right, where, fault):
    if not right: raise Wrong(f"{where} {fault}")

# Ed25519 by RFC 8032. A point is (X, Y, Z, T) with x = X/Z, y = Y/Z and xy = T/Z.
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D, ROOT = -121665 * pow(121666, -1, P) % P, pow(2, (P - 1) // 4, P)
NEUTRAL = (0, 1, 1, 0)
def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P
def point_of(data):
    """The point of 32 bytes; None if they are not exactly those of a point."""
    y, sign = int.from_bytes(data, "little") & (2**255 - 1), data[31] >> 7
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * v**3 * pow(u * v**7, (P - 5) // 8, P) % P
    if v * x * x % P == -u % P: x = x * ROOT % P
    if y >= P or v * x * x % P != u or (x == 0 and sign): return None
    if x % 2 != sign: x = P - x
    return x, y, 1, x * y % P
BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
def is_unsafe(point):
    """Whether 8 times the point is neutral. Such a key fits signatures that it never made."""
    for _ in range(3): point = point and add(point, point)
    return point is None or (point[0] == 0 and point[1] == point[2])
def is_signed(key, signature, message):
    """Whether sB - kA is R, with the bytes of R compared."""
    point, s = point_of(key), int.from_bytes(signature[32:], "little")
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    k = int.from_bytes(digest, "little") % L
    minus = (P - point[0], point[1], 1, P - point[3])
    table, result = (NEUTRAL, BASE, minus, add(BASE, minus)), NEUTRAL
    for bit in range(252, -1, -1):
        result = add(add(result, result), table[(s >> bit & 1) + 2 * (k >> bit & 1)])
    inverse = pow(result[2], -1, P)
    x, y = result[0] * inverse % P, result[1] * inverse % P
    return s < L and (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]

# JSON. Writing what is read must give the same bytes, so no name is there twice.
def is_plain(value, level=0):
    """Whether it has whole numbers below 2^53 only, and at most 64 levels."""
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    whole = type(value) is not float and (type(value) is not int or abs(value) < 2**53)
    return whole and level <= 64 and all(is_plain(one, level + 1) for one in inner)
def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
def indented(value): return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
def parse(data, path, write=canonical):
    try:
        value = json.loads(data.decode())
        if not is_plain(value): raise ValueError("it has a wrong number or depth")
        if write(value) != data: raise ValueError("it has other bytes")
        return value
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{path} is not JSON as Sluice writes it: {str(error)[:60]}")

def is_text(value): return type(value) is str
def is_count(value): return type(value) is int and value >= 0
def is_hex(value, digits=64):
    return is_text(value) and re.fullmatch("[0-9a-f]{%d}" % digits, value) is not None
def is_instant(value):
    shape = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
    return is_text(value) and re.fullmatch(shape, value) is not None

# Places. `names`: all paths, or None. size(path): None if it is missing. read(path): its pieces.
class Folder:
    def __init__(self, root):
        self.root, self.sizes = root, {}
        for folder, folders, names in os.walk(root, onerror=self.fail):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in names + links:
                file = os.path.join(folder, name)
                path = os.path.relpath(file, root).replace(os.sep, "/")
                regular = os.path.isfile(file) and not os.path.islink(file)
                self.sizes[path] = os.path.getsize(file) if regular else None
                must(regular, path, "is not a file")
        self.names = list(self.sizes)
    def fail(self, error): raise error
    def size(self, path): return self.sizes.get(path)
    def read(self, path):
        with open(os.path.join(self.root, path), "rb") as file:
            yield from iter(lambda: file.read(2**16), b"")
class Http:
    def __init__(self, names, address_of, seconds):
        self.names, self.address_of, self.seconds = names, address_of, seconds
    def open(self, path):
        address = self.address_of(path)
        if address is None: return None
        if not re.match("https?://", address): raise NotChecked(f"{path}: the address is not http")
        request = urllib.request.Request(address, headers={"Accept-Encoding": "identity"})
        try: return urllib.request.urlopen(request, timeout=self.seconds)
        except urllib.error.HTTPError as error:
            if error.code in (403, 404, 410): return None
            raise NotChecked(f"{path}: the store answered with {error.code}")
    def size(self, path):
        answer = self.open(path)
        if answer is None: return None
        with answer: length = answer.headers.get("Content-Length")
        if length is None: raise NotChecked(f"{path}: the store gives no size")
        return int(length)
    def read(self, path):
        began = time.monotonic()
        with self.open(path) as answer:
            for piece in iter(lambda: answer.read1(2**16), b""):
                if time.monotonic() - began > self.seconds: raise NotChecked(f"{path}: too slow")
                yield piece
def place_of(text, seconds):
    if re.match("https?://", text):
        base, mark, query = text.partition("?")
        base = base.rstrip("/")
        return Http(None, lambda path: f"{base}/{urllib.parse.quote(path)}{mark}{query}", seconds)
    if not os.path.isfile(text): return Folder(text)
    with open(text, encoding="utf-8") as file: addresses = json.load(file)
    return Http(list(addresses), addresses.get, seconds)

SUMS, FULL = ("rows", "bytes", "files"), ("delivered", "empty")
NOTHING = dict.fromkeys(SUMS, 0)
# The kinds of bookings, and what their notes must say.
STATES = {"delivered": (), "empty": (), "open": (), "not_due": (), "accepted": ("by", "reason")}
TAKEN = {"removed": ("by", "request"), "erased": ("request",)}
CHANGES = {"supplement": (), "remade": (), "moved": (), **TAKEN}
STATEMENTS, LARGEST = "_sluice/statements/", 64 * 2**20
Key = collections.namedtuple("Key", "id fingerprint public trusted number")
Interval = collections.namedtuple("Interval", "end after")

class Check:
    def __init__(self, place, since="", keys=(), head=None, deep=False, document=None):
        self.place, self.since, self.given, self.head, self.deep = place, since, keys, head, deep
        self.document = document
        self.lines, self.keys, self.heads, self.newest, self.signer = [], [], [], None, None
        # What the newest chain says, and what the one before had, and it has not yet.
        self.intervals, self.owed, self.named, self.newer = {}, set(), {}, []
    def run(self):
        self.check_statements()
        self.check_objects()
        if self.document is not None:
            self.check_document(parse(self.document.removesuffix(b"\n"), "the document"))
        self.lines.append(f"Right. The head is {self.heads[-1]}")
    def read(self, path, write, use):
        """Gives `use` the path of an object, the value in it, and its digest."""
        size = self.place.size(path)
        must(size is not None, path, "is missing")
        must(size <= LARGEST, path, "is too large")
        data = b"".join(self.place.read(path))
        value = parse(data, path, write)
        try: return use(path, value, hashlib.sha256(data).hexdigest())
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise Wrong(f"{path} has a wrong shape: {error!r}")

    def add_keys(self, path, listed, _):
        must(listed["type"] == "sluice.keys.v1", path, "has another type")
        for entry in listed["keys"]:
            signature = entry.pop("signature", None)
            public = bytes.fromhex(entry["public_key"]) if is_hex(entry["public_key"]) else b""
            must(public and not is_unsafe(point_of(public)), path, "has an unsafe key")
            fingerprint = hashlib.sha256(public).hexdigest()
            given = not self.given or fingerprint in self.given or public.hex() in self.given
            key = Key(fingerprint[:16], fingerprint, public, given, len(self.keys))
            signer = key if entry["signed_by"] == key.id else self.keys[-1] if self.keys else None
            right = signer and self.signs(signer, signature, entry)
            must(right, path, f"has a wrong signature of the key {key.id}")
            self.keys.append(key._replace(trusted=given or signer.trusted))
        names = {name for key in self.keys for name in (key.fingerprint, key.public.hex())}
        for one in self.given: must(one in names, path, f"has no key {one}")
    def signs(self, key, signature, value):
        if not is_hex(signature, 128): return False
        return is_signed(key.public, bytes.fromhex(signature), canonical(value))
    def signer_of(self, value):
        """The key that signed a value; None if none did."""
        receipt = value.get("receipt")
        if type(receipt) is not dict or receipt.get("algorithm") != "Ed25519": return None
        signed = {name: inner for name, inner in value.items() if name != "receipt"}
        key = next((key for key in self.keys if key.id == receipt.get("key_id")), None)
        return key if key and self.signs(key, receipt.get("signature"), signed) else None
    def trusts(self, value):
        signer = self.signer_of(value)
        return signer is not None and signer.trusted

    def check_statements(self):
        def path(): return f"{STATEMENTS}{len(self.heads) + 1}.json"
        while self.place.size(path()) is not None:
            if not self.heads: self.read("_sluice/keys.json", canonical, self.add_keys)
            self.read(path(), canonical, self.add_statement)
        listed = [name for name in self.place.names or () if name.startswith(STATEMENTS)]
        must(len(listed) <= len(self.heads), path(), f"is missing, but not {listed and listed[-1]}")
        if not self.heads: raise NotChecked("there is no statement")
        last, owed = f"{STATEMENTS}{len(self.heads)}.json", min(self.owed, default=None)
        must(owed is None, last, f"lacks {owed}, which an earlier chain had delivered")
        named = f"{STATEMENTS}{(self.head or '').split(':')[0]}.json"
        must(self.head in (None, *self.heads), named, "is missing, or not the given head")
        name = self.signer.fingerprint
        must(self.signer.trusted, last, f"is signed by {name}, which follows from no given key")
        trust = ("is given, or follows from a given key" if self.given else
            "is from the bucket. Who can write there could have put it there: use --key")
        self.lines.append(f"Key {name} {trust}.")
        looked = canonical(self.newest["reconciliation"]).decode()
        self.lines.append(f"Sluice listed the objects: {looked}")
    def add_statement(self, path, now, digest):
        last, number, signer = self.newest, len(self.heads) + 1, self.signer_of(now)
        must(signer, path, "has no right signature")
        earlier = self.signer and signer.number < self.signer.number
        must(not earlier, path, "is signed by an earlier key")
        must(now["type"] == "sluice.statement.v1" and type(now["number"]) is int
            and now["number"] == number, path, "has another type or number")
        name = (last or now)["batch_export_id"]
        must(is_text(name) and now["batch_export_id"] == name, path, "is of another export")
        before = {"number": number - 1, "sha256": self.heads[-1].split(":")[1]} if last else None
        named = canonical(now["previous"]) == canonical(before)
        must(named, path, "does not name the statement before")
        opening, self.due, end = NOTHING, now["period"]["start"], now["period"]["end"]
        if now["begins"] is not None: self.begin_chain(number, now["begins"])
        else:
            must(self.due == last["period"]["end"], path, "skips a period")
            opening = last["balance"]["closing"]
        parts = {part: dict(NOTHING) for part in ("delivered", "removed", "erased")}
        for booking in now["bookings"]: self.book(booking, parts, path)
        must(self.due == end, path, f"has no interval at {self.due}")
        closing = {name: opening[name] + parts["delivered"][name] - parts["removed"][name]
            - parts["erased"][name] for name in SUMS}
        right = canonical({"opening": opening, **parts, "closing": closing})
        must(canonical(now["balance"]) == right, path, "has a balance that does not add up")
        self.heads.append(f"{number}:{digest}")
        self.newest, self.signer = now, signer
    def begin_chain(self, number, reason):
        if number > 1: self.lines.append(f"Statement {number} begins a chain: {reason}")
        for start, (end, after) in self.intervals.items():
            if after["state"] == "delivered": self.owed.add(f"{start} to {end}")
        self.intervals, self.began = {}, self.due
    def book(self, booking, parts, path):
        kind, start, end = booking["kind"], booking["start"], booking["end"]
        before, after, note = booking["before"], booking["after"], booking["note"]
        held, old, where = self.intervals.get(start), before or NOTHING, f"{path}: {start} to {end}"
        must(is_instant(start) and is_instant(end) and start < end, where, "has no length")
        known = held or Interval(end, None)
        must(known.end == end and canonical(known.after) == canonical(before),
            where, "is not as it was")
        # A backfill delivers intervals from before the first period: they do not tile it.
        if before is None and end > self.began:
            must(start == self.due, where, f"does not begin at {self.due}")
            self.due = end
        full = after["state"] in FULL
        change = kind in CHANGES and full and old.get("state") in FULL
        must(change or (kind in STATES and kind == after["state"]),
            where, "has a wrong kind, or a wrong state")
        must(all(is_count(after[name]) for name in SUMS), where, "has a wrong number")
        zero = {"delivered": (), "empty": ("rows",)}.get(after["state"], SUMS)
        must(not any(after[name] for name in zero), where, "has rows, bytes or files")
        must(not full or after["manifest"] is None or is_hex(after["manifest"]["sha256"]),
            where, "has no digest")
        must(all(name in note for name in {**STATES, **CHANGES}[kind]),
            where, "does not say who asked")
        moved = kind == "moved" and before["place"] != after["place"]
        must(kind in TAKEN or moved or after["rows"] >= old["rows"], where, "loses rows")
        for name in SUMS:
            if kind in TAKEN: parts[kind][name] += old[name] - after[name]
            else: parts["delivered"][name] += after[name] - old[name]
        self.intervals[start] = Interval(end, after)
        if after["state"] == "delivered": self.owed.discard(f"{start} to {end}")

    def check_objects(self):
        place, work, elsewhere, last = self.newest["place"], [], 0, ""
        names = None if self.since else self.place.names
        self.inside = f"{place['prefix']}/" if place["prefix"] else ""
        for start, (end, after) in sorted(self.intervals.items()):
            must(start >= last, start, "is in two intervals: they overlap")
            last = end
            if after["state"] not in FULL or end < self.since: continue
            if after["place"] != place["name"]: elsewhere += 1
            elif after["manifest"] is None: names = None
            else: work.append((after["manifest"]["key"], start, end, after))
        pool = concurrent.futures.ThreadPoolExecutor(16)
        try: collections.deque(pool.map(lambda job: self.check_manifest(*job), work))
        finally: pool.shutdown(cancel_futures=True)
        if names is not None: self.check_strays(names, place.get("table") == "iceberg")
        else: self.lines.append("Objects that no manifest names were not looked for.")
        if elsewhere: self.lines.append(f"{elsewhere} intervals at other places were left out.")
        if self.newer: self.lines.append(f"{len(self.newer)} manifests are newer than statements.")
    def path_of(self, key):
        below = key.startswith(self.inside) and not re.search(r"[\0\\]", key)
        must(below and not {"", ".", ".."} & set(key.split("/")),
            key, "is not a key below the place")
        return key[len(self.inside):]
    def check_manifest(self, key, start=None, end=None, after=None):
        def use(*found): return self.add_manifest(*found, (start, end), after)
        for file in self.read(self.path_of(key), indented, use): self.check_file(*file)
    def add_manifest(self, path, manifest, digest, interval, after):
        names = (manifest["data_interval_start"], manifest["data_interval_end"])
        files, rejected = manifest["files"], manifest["rejected_files"]
        must(manifest["batch_export_id"] == self.newest["batch_export_id"],
            path, "is of another export")
        must(after is None or names == interval, path, "is of another interval")
        def total(listed, name): return sum(file[name] for file in listed)
        rows, size = total(files, "rows"), total(files, "bytes")
        must((rows, size, total(rejected, "rows")) == (manifest["total_rows"],
            manifest["total_bytes"], manifest["rejected_rows"]),
            path, "has other totals than its files")
        if after is not None and digest == after["manifest"]["sha256"]:
            must((manifest["generation"], rows, size, len(files)) == (after["generation"],
                after["rows"], after["bytes"], after["files"]),
                path, "has other totals than its booking")
        else:
            must(self.trusts(manifest), path, "has no right receipt")
            known = self.intervals.get(names[0])
            newer = manifest["generation"] > (known.after.get("generation", -1) if known else -1)
            must(newer or (after is None and "moved_to" in manifest),
                path, "is not newer than the statements")
            self.newer.append(path)
        for name in (path, *(self.path_of(file["key"]) for file in files + rejected)):
            mark = object()  # Manifests are read by threads: only one of them sets a name.
            must(self.named.setdefault(name, mark) is mark, name, "is named twice")
        made = (manifest.get("format"), manifest.get("compression"))
        return [(file, *made) for file in files] + [(file, "JSONLines", None) for file in rejected]
    def check_file(self, file, kind, compression):
        path, size = self.path_of(file["key"]), self.place.size(self.path_of(file["key"]))
        must(size is not None, path, "is missing")
        must(size == file["bytes"], path, f"has {size} bytes instead of {file['bytes']}")
        if not self.deep: return
        digest, tool, lines, quotes = hashlib.sha256(), zlib.decompressobj(31), 0, 0
        for piece in self.place.read(path): digest.update(piece)
        must(digest.hexdigest() == file["sha256"],
            path, "has another SHA-256 than its manifest says")
        if kind not in ("JSONLines", "CSV") or compression not in (None, "gzip"): return
        for piece in self.place.read(path):
            plain = tool.decompress(piece) if compression else piece
            # A line feed between quotes is a part of a cell.
            for at, part in enumerate(plain.split(b'"') if kind == "CSV" else (plain,)):
                quotes += at > 0
                if quotes % 2 == 0: lines += part.count(b"\n")
        must(lines == file["rows"] or (kind == "CSV" and lines == file["rows"] + 1),
            path, f"has {lines} rows instead of {file['rows']}")
    def check_strays(self, names, table):
        def stray(name):
            besides = r"(_sluice|metadata)/|(.*/)?\.sluice-(test|owner)-[^/]*\Z"
            return name not in self.named and not re.match(besides, name, re.DOTALL)
        for name in filter(stray, names):
            if name.endswith("_manifest.json"): self.check_manifest(self.inside + name)
        strays = list(filter(stray, names))
        must(table or not strays, strays and strays[0], "is in no manifest")
        if strays: self.lines.append(f"{len(strays)} objects are in no manifest: a table's own.")
    def check_document(self, document):
        """A certificate or a record is signed, and names statements that are here."""
        must(self.trusts(document), "the document", "has no right signature")
        own = self.newest["batch_export_id"]
        named = [one["statement"] for one in document.get("exports", ())
            if one["batch_export_id"] == own and one["statement"]]
        if document.get("batch_export_id") == own:
            named += [one["statement"] for one in document["intervals"]]
        right = all(f"{one['number']}:{one['sha256']}" in self.heads for one in named)
        must(named and right, "the document", "names other statements, or none")
    def months(self):
        months = {}
        for start, (_, after) in sorted(self.intervals.items()):
            month = months.setdefault(start[:7], collections.Counter())
            month.update({"intervals": 1, "rows": after["rows"], "bytes": after["bytes"]})
            month[after["state"]] += 1
        columns = ("intervals", *FULL, "accepted", "open", "rows", "bytes")
        return [" ".join([month, *(f"{name} {counts[name]}" for name in columns)])
            for month, counts in months.items()]

def check(place, **options):
    job, code = Check(place, **options), 0
    try: job.run()
    except Wrong as error: code, _ = 1, job.lines.append(f"WRONG: {str(error)[:500]}")
    except Exception as error: code, _ = 2, job.lines.append(f"NOT CHECKED: {str(error)[:500]}")
    lines = job.months() + job.lines
    return code, ["".join(one if one.isprintable() else "?" for one in line) for line in lines]
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("place")
    for name in ("--since", "--head", "--document"): parser.add_argument(name)
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--timeout", type=int, default=600)
    given, document = parser.parse_args(), None
    if given.since and not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", given.since):
        parser.error("--since is not like 2026-11-30")
    if given.document:
        with open(given.document, "rb") as file: document = file.read()
    return check(place_of(given.place, given.timeout), since=given.since or "", keys=given.key,
        head=given.head, deep=given.deep, document=document)
if __name__ == "__main__":
    try: code, lines = main()
    except Wrong as error: code, lines = 1, [f"WRONG: {error}"]
    except Exception as error: code, lines = 2, [f"NOT CHECKED: {error}"]
    sys.stdout.reconfigure(errors="replace")
    print("\n".join(lines))
    sys.exit(code)
