"""Checks the receipts and statements of a Sluice export, without the service.
docs/receipts.md describes the bytes, and what is checked.

python3 sluice_check.py PLACE [--since DATE] [--key KEY]... [--head NUMBER:DIGEST] [--deep]
    [--document FILE]

It needs Python 3.9. It exits with 0: all is right, 1: something is wrong, 2: not checked.
"""
import argparse, collections, concurrent.futures, hashlib, json, os, re, sys, zlib
import urllib.error, urllib.parse, urllib.request
class Wrong(Exception): """Something is not as it was signed."""
def must(right, fault):
    if not right: raise Wrong(fault)

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
def is_signed(key, signature, message):
    """Whether sB - kA is R, with the bytes of R compared."""
    point, s = point_of(key), int.from_bytes(signature[32:], "little")
    if point is None or s >= L: return False
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    k, minus = int.from_bytes(digest, "little") % L, (P - point[0], point[1], 1, P - point[3])
    table, result = (NEUTRAL, BASE, minus, add(BASE, minus)), NEUTRAL
    for bit in range(252, -1, -1):
        result = add(add(result, result), table[(s >> bit & 1) + 2 * (k >> bit & 1)])
    inverse = pow(result[2], -1, P)
    x, y = result[0] * inverse % P, result[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]

# JSON. Writing what is read must give the same bytes, so no name is there twice.
def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
def indented(value): return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
def whole(text):
    """The only numbers that both languages write alike."""
    right = re.fullmatch("-?[0-9]{1,16}", text) and abs(int(text)) < 2**53
    must(right, "is JSON with a wrong number")
    return int(text)
def is_hex(value, digits=64):
    return type(value) is str and re.fullmatch("[0-9a-f]{%d}" % digits, value) is not None

SUMS, FULL = ("rows", "bytes", "files"), ("delivered", "empty")
NOTHING = dict.fromkeys(SUMS, 0)
INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
# The kinds of bookings, and what their notes say.
KINDS = {"delivered": (), "empty": (), "open": (), "not_due": (), "accepted": ("by", "reason"),
    "supplement": (), "remade": (), "moved": (), "removed": ("by", "request"),
    "erased": ("request",)}
STATEMENTS, LARGEST = "_sluice/statements/", 64 * 2**20
Key = collections.namedtuple("Key", "id fingerprint public trusted")

class Check:
    def __init__(self, place, since=None, keys=(), head=None, deep=False, document=None):
        self.place, self.since, self.given, self.head = place, since or "", keys, head
        self.deep, self.document = deep, document
        self.lines, self.keys, self.heads = [], [], []
        self.newest, self.signer, self.named, self.newer = None, None, set(), []
        # What the newest chain says of each interval; rows that an earlier one had, and it not yet.
        self.intervals, self.owed, self.fewer, self.missing = {}, {}, 0, 0
    def run(self):
        self.check_statements()
        self.check_objects()
        if self.document:
            document = self.document.removesuffix(b"\n")
            self.parse("the document", document, canonical, self.add_document)
        return f"Right. The head is {self.heads[-1]}"
    def read(self, path, write, use):
        """What `use` makes of the value in an object; None if there is no such object."""
        found = self.place.open(path)
        if found is None: return None
        must(found[0] <= LARGEST, f"{path} is too large")
        with found[1] as file: data = file.read()
        return self.parse(path, data, write, use)
    def parse(self, path, data, write, use):
        try:
            value = json.loads(data.decode(), parse_int=whole, parse_float=whole,
                parse_constant=whole)
            must(write(value) == data, "is JSON with other bytes")
            return use(value, hashlib.sha256(data).hexdigest(), path)
        except Wrong as error: raise Wrong(f"{path} {error}")
        except (ValueError, RecursionError, TypeError, LookupError, AttributeError) as error:
            raise Wrong(f"{path} is not JSON of this shape: {error!r:.100}")

    def add_keys(self, listed, *_):
        must(listed["type"] == "sluice.keys.v1", "has another type")
        for entry in listed["keys"]:
            signature = entry.pop("signature")
            must(is_hex(entry["public_key"]), "has a wrong public key")
            public = bytes.fromhex(entry["public_key"])
            fingerprint = hashlib.sha256(public).hexdigest()
            given = not self.given or fingerprint in self.given or public.hex() in self.given
            key = Key(fingerprint[:16], fingerprint, public, given)
            signer = key if entry["signed_by"] == key.id else self.keys[-1]
            must(signs(signer, signature, entry), f"has a wrong signature of the key {key.id}")
            self.keys.append(key._replace(trusted=given or signer.trusted))
    def signer_of(self, value):
        """The key that signed a value; None if none did."""
        signed = {name: inner for name, inner in value.items() if name != "receipt"}
        receipt = value["receipt"]
        key = next((key for key in self.keys if key.id == receipt["key_id"]), None)
        right = key and receipt["algorithm"] == "Ed25519"
        return key if right and signs(key, receipt["signature"], signed) else None
    def trusts(self, value): return getattr(self.signer_of(value), "trusted", False)

    def check_statements(self):
        def path(): return f"{STATEMENTS}{len(self.heads) + 1}.json"
        self.read("_sluice/keys.json", canonical, self.add_keys)
        while self.read(path(), canonical, self.add_statement): pass
        listed = [name for name in self.place.names or () if name.startswith(STATEMENTS)]
        must(len(listed) <= len(self.heads), f"{path()} is missing, but not {listed[-1:]}")
        if not self.heads: raise ValueError("there is no statement")
        head, name = self.head or self.heads[-1], self.signer.fingerprint
        file = f"{STATEMENTS}{head.split(':')[0]}.json"
        must(head in self.heads, f"{file} is missing, or not the given head")
        owed = min(self.owed, default=None)
        must(owed is None, f"no statement has {owed}, which an earlier chain had")
        must(self.signer.trusted, f"the head is signed by {name}, which follows from no given key")
        trust = ("follows from a given key" if self.given else
            "is from the bucket. Who can write there could have put it there: use --key")
        looked = canonical(self.newest["reconciliation"]).decode()
        self.lines += [f"Key {name} {trust}.", f"Sluice listed the objects: {looked}"]
    def add_statement(self, now, digest, _):
        last, number, signer = self.newest, len(self.heads) + 1, self.signer_of(now)
        must(signer, "has no right signature by a key of keys.json")
        earlier = self.signer and self.keys.index(signer) < self.keys.index(self.signer)
        must(not earlier, "is signed by an earlier key")
        must(now["type"] == "sluice.statement.v1", "has another type")
        must(canonical(now["number"]) == canonical(number), "has another number")
        name = (last or now)["batch_export_id"]
        must(now["batch_export_id"] == name, "is of another export")
        before = {"number": number - 1, "sha256": self.heads[-1].split(":")[1]} if last else None
        named = canonical(now["previous"]) == canonical(before)
        must(named, "does not name the statement before")
        self.due, end = now["period"]["start"], now["period"]["end"]
        if now["begins"] is not None: self.begin_chain(number, now["begins"])
        else: must(self.due == last["period"]["end"], "skips a period")
        opening = NOTHING if now["begins"] is not None else last["balance"]["closing"]
        parts = {part: dict(NOTHING) for part in ("delivered", "removed", "erased")}
        parts["closing"] = dict(opening)
        for booking in now["bookings"]: self.book(booking, parts)
        must(self.due == end, f"has no interval at {self.due}")
        right = canonical(now["balance"]) == canonical({"opening": opening, **parts})
        must(right, "has a balance that does not add up")
        prefix = now["place"]["prefix"]
        self.inside = f"{prefix}/" if prefix else ""
        self.heads.append(f"{number}:{digest}")
        self.newest, self.signer = now, signer
        return True
    def begin_chain(self, number, reason):
        if number > 1: self.lines.append(f"Statement {number} begins a chain: {reason}")
        for start, (end, after) in self.intervals.items():
            if after["state"] == "delivered": self.owed[f"{start} to {end}"] = after["rows"]
        self.intervals, self.began = {}, self.due
    def book(self, booking, parts):
        kind, start, end = booking["kind"], booking["start"], booking["end"]
        before, after, note = booking["before"], booking["after"], booking["note"]
        at, old, state = f"{start} to {end}", before or NOTHING, after["state"]
        must(INSTANT.fullmatch(start) and INSTANT.fullmatch(end) and start < end,
            f"{at} has no length")
        held = self.intervals.get(start, (end, None))
        must(held[0] == end and canonical(held[1]) == canonical(before), f"{at} is not as it was")
        # A backfill delivers intervals from before the first period: they do not tile it.
        if before is None and end > self.began:
            must(start == self.due, f"{at} does not begin at {self.due}")
            self.due = end
        full = state in FULL
        change = kind == state or (full and old.get("state") in FULL)
        must(change and kind in KINDS, f"{at} has a wrong kind")
        must(all(name in note for name in KINDS[kind]), f"{at} does not say who asked")
        zero = {"delivered": (), "empty": ("rows",)}.get(state, SUMS)
        counts = all(type(after[name]) is int and after[name] >= 0 for name in SUMS)
        must(counts and not any(after[name] for name in zero), f"{at} has a wrong number")
        must(not full or after["manifest"] is None or is_hex(after["manifest"]["sha256"]),
            f"{at} has no digest")
        taken, elsewhere = kind in ("removed", "erased"), old.get("place") != after.get("place")
        falls = taken or (kind == "moved" and elsewhere)
        must(falls or after["rows"] >= old["rows"], f"{at} loses rows")
        for name in SUMS:
            more = after[name] - old[name]
            parts[kind if taken else "delivered"][name] += -more if taken else more
            parts["closing"][name] += more
        self.intervals[start] = (end, after)
        if state == "accepted" and self.owed.pop(at, None) is not None: self.missing += 1
        if full: self.fewer += after["rows"] < self.owed.pop(at, 0)

    def check_objects(self):
        place, jobs, elsewhere, last = self.newest["place"], [], 0, ""
        names = None if self.since or place.get("table") else self.place.names
        for start, (end, after) in sorted(self.intervals.items()):
            must(start >= last, f"{start} is in two intervals: they overlap")
            last = end
            if after["state"] not in FULL or end < self.since: continue
            if after["place"] != place["name"]: elsewhere += 1
            elif after["manifest"] is None: names = None
            else: jobs.append((self.path_of(after["manifest"]["key"]), (start, end, after)))
        besides = re.compile(r"(_sluice|metadata)/|(.*/)?\.sluice-(test|owner)-[^/]*\Z", re.DOTALL)
        others = [name for name in names or () if not besides.match(name)]
        booked = {path for path, _ in jobs}
        jobs += [(name, None) for name in others
            if name.endswith("_manifest.json") and name not in booked]
        pool = concurrent.futures.ThreadPoolExecutor(16)
        try:
            for paths in pool.map(lambda job: self.check_manifest(*job), jobs):
                for path in paths:
                    must(path not in self.named, f"{path} is named twice")
                    self.named.add(path)
        finally: pool.shutdown(cancel_futures=True)
        stray = next((name for name in others if name not in self.named), None)
        must(stray is None, f"{stray} is in no manifest")
        if names is None: self.lines.append("Objects that no manifest names were not looked for.")
        if elsewhere: self.lines.append(f"{elsewhere} intervals at other places were left out.")
        fewer, newer = self.fewer, len(self.newer)
        if fewer: self.lines.append(f"{fewer} intervals had more rows in an earlier chain.")
        if self.missing:
            self.lines.append(f"{self.missing} intervals that an earlier chain had are given up.")
        if newer: self.lines.append(f"{newer} manifests are newer than the statements.")
    def path_of(self, key):
        below = key.startswith(self.inside) and not {"", ".", ".."} & set(key.split("/"))
        must(below, f"{key} is not a key below the place")
        return key[len(self.inside):]
    def check_manifest(self, path, booked):
        """Its path, and those of its files."""
        def use(*found): return self.add_manifest(booked, *found)
        files = self.read(path, indented, use)
        must(files is not None, f"{path} is missing")
        return [path, *(self.check_file(*file) for file in files)]
    def add_manifest(self, booked, manifest, digest, path):
        start, end = manifest["data_interval_start"], manifest["data_interval_end"]
        generation, files = manifest["generation"], manifest["files"]
        own = manifest["batch_export_id"] == self.newest["batch_export_id"]
        must(own, "is of another export")
        must(not booked or booked[:2] == (start, end), "is of another interval")
        if booked and booked[2]["manifest"]["sha256"] == digest:
            rows, size = (sum(file[name] for file in files) for name in ("rows", "bytes"))
            made = {"generation": generation, "rows": rows, "bytes": size, "files": len(files)}
            right = canonical({**booked[2], **made}) == canonical(booked[2])
            must(right, "has other totals than its booking")
        else:
            stated = self.intervals.get(start, (end, {}))[1].get("generation", -1)
            must(self.trusts(manifest), "has no right receipt")
            newer = generation > stated or (not booked and "moved_to" in manifest)
            must(newer, "is not newer than the statements")
            self.newer.append(path)
        made = (manifest.get("format"), manifest.get("compression"))
        rejected = [(self.path_of(file["key"]), file) for file in manifest["rejected_files"]]
        return [(self.path_of(file["key"]), file, *made) for file in files] + rejected
    def check_file(self, path, file, kind=None, compression=None):
        size, body = self.place.open(path) or (None, None)
        must(body, f"{path} is missing")
        must(size == file["bytes"], f"{path} has {size} bytes instead of {file['bytes']}")
        digest, tool, lines, quotes = hashlib.sha256(), zlib.decompressobj(31), 0, 0
        with body:
            for piece in iter(lambda: self.deep and body.read(2**16), b"" if self.deep else False):
                digest.update(piece)
        if not self.deep: return path
        right = digest.hexdigest() == file["sha256"]
        must(right, f"{path} has another SHA-256 than its manifest says")
        if kind not in ("JSONLines", "CSV") or compression not in (None, "gzip"): return path
        with self.place.open(path)[1] as body:
            for piece in iter(lambda: body.read(2**16), b""):
                plain = tool.decompress(piece) if compression else piece
                # A line feed between quotes is a part of a cell.
                for at, part in enumerate(plain.split(b'"') if kind == "CSV" else (plain,)):
                    quotes += at > 0
                    if quotes % 2 == 0: lines += part.count(b"\n")
        right = lines == file["rows"] or (kind == "CSV" and lines == file["rows"] + 1)
        must(right, f"{path} has {lines} rows instead of {file['rows']}")
        return path
    def add_document(self, document, *_):
        """A certificate or a record is signed, and names statements that are here."""
        must(self.trusts(document), "has no right signature")
        parts = document.get("exports") or [{**document, **one} for one in document["intervals"]]
        own = self.newest["batch_export_id"]
        named = [one["statement"] for one in parts
            if one["batch_export_id"] == own and one["statement"]]
        right = all(f"{one['number']}:{one['sha256']}" in self.heads for one in named)
        must(named and right, "names other statements, or none")
    def months(self):
        months = {}
        for start, (_, after) in sorted(self.intervals.items()):
            month = months.setdefault(start[:7], collections.Counter())
            month.update({"rows": after["rows"], "bytes": after["bytes"]})
            month.update(["intervals", after["state"]])
        columns = ("intervals", *FULL, "accepted", "open", "rows", "bytes")
        return [" ".join([month, *(f"{name} {counts[name]}" for name in columns)])
            for month, counts in months.items()]

def signs(key, signature, value):
    right = is_hex(signature, 128)
    return right and is_signed(key.public, bytes.fromhex(signature), canonical(value))
def ended(error):
    code, word = (1, "WRONG") if isinstance(error, Wrong) else (2, "NOT CHECKED")
    return code, [f"{word}: {str(error)[:500]}"]
def check(place, **options):
    """A place has `names` of all objects or None, and open(path): None, or its size and a file."""
    job = Check(place, **options)
    try: code, lines = 0, [job.run()]
    except Exception as error: code, lines = ended(error)
    lines = job.months() + job.lines + lines
    return code, ["".join(one if one.isprintable() else "?" for one in line) for line in lines]

Place = collections.namedtuple("Place", "names open")
def over_http(names, address_of):
    def open_object(path):
        address = address_of(path)
        if address is None: return None
        try: answer = urllib.request.urlopen(address, timeout=300)
        except urllib.error.HTTPError as error:
            if error.code in (403, 404, 410): return None
            raise OSError(f"{path}: the store answered with {error.code}")
        size = answer.headers["Content-Length"]
        if size is None: raise OSError(f"{path}: the store gives no size")
        return int(size), answer
    return Place(names, open_object)
def stop(error): raise error
def place_of(text):
    if re.match("https?://", text):
        base, mark, query = text.partition("?")
        base = base.rstrip("/")
        return over_http(None, lambda path: f"{base}/{urllib.parse.quote(path)}{mark}{query}")
    if os.path.isfile(text):
        with open(text, encoding="utf-8") as file: addresses = json.load(file)
        return over_http(list(addresses), addresses.get)
    files = {}
    for folder, _, names in os.walk(text, onerror=stop):
        for file in (os.path.join(folder, name) for name in names):
            if os.path.isfile(file) and not os.path.islink(file):
                files[os.path.relpath(file, text).replace(os.sep, "/")] = file
    def open_object(path):
        file = files.get(path)
        return file and (os.path.getsize(file), open(file, "rb"))
    return Place(list(files), open_object)
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("place")
    for name in ("--since", "--head", "--document"): parser.add_argument(name)
    parser.add_argument("--key", action="append", default=[], dest="keys")
    parser.add_argument("--deep", action="store_true")
    given = parser.parse_args()
    if not re.fullmatch("([0-9]{4}-[0-9]{2}-[0-9]{2})?", given.since or ""):
        parser.error("--since is no date")
    if given.document:
        with open(given.document, "rb") as file: given.document = file.read()
    options = vars(given)
    return check(place_of(options.pop("place")), **options)
if __name__ == "__main__":
    try: code, lines = main()
    except Exception as error: code, lines = ended(error)
    sys.stdout.reconfigure(errors="replace")
    print("\n".join(lines))
    sys.exit(code)
