interface Props {
  readonly onNewer: (() => void) | null;
  readonly onOlder: (() => void) | null;
}

/** Buttons for newer and older pages; nothing if there is only one page. */
export function Pager({ onNewer, onOlder }: Props) {
  if (!onNewer && !onOlder) return null;
  return (
    <nav className="pager" aria-label="Pages">
      <button type="button" disabled={!onNewer} onClick={() => onNewer?.()}>
        ← Newer
      </button>
      <button type="button" disabled={!onOlder} onClick={() => onOlder?.()}>
        Older →
      </button>
    </nav>
  );
}
