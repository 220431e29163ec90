import { useSay } from './toasts.tsx';

interface Props {
  readonly text: string;
  /** The kind of text, such as `path`. */
  readonly what: string;
}

/** A text with a button that copies it. */
export function CopyText({ text, what }: Props) {
  const say = useSay();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(`The ${what} is copied.`);
    } catch {
      // Browsers allow it on https and localhost only.
      say(`The browser does not allow copying here. Select the ${what} instead.`);
    }
  };
  return (
    <>
      <code>{text}</code>{' '}
      <button
        type="button"
        className="small quiet"
        aria-label={`Copy ${text}`}
        onClick={() => void copy()}
      >
        Copy
      </button>
    </>
  );
}
