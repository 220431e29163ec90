interface Props<T extends string> {
  readonly label: string;
  readonly choices: readonly T[];
  readonly chosen: readonly T[];
  readonly nameOf?: (choice: T) => string;
  readonly onChange: (chosen: readonly T[]) => void;
}

/** A filter with several choices; none chosen means all. */
export function FilterChips<T extends string>(props: Props<T>) {
  const { label, choices, chosen, nameOf = (choice) => choice, onChange } = props;
  const toggle = (choice: T) =>
    onChange(
      chosen.includes(choice) ? chosen.filter((one) => one !== choice) : [...chosen, choice],
    );
  return (
    <fieldset className="row">
      <legend className="unseen">{label}</legend>
      {choices.map((choice) => (
        <button
          key={choice}
          type="button"
          className="chip small"
          aria-pressed={chosen.includes(choice)}
          onClick={() => toggle(choice)}
        >
          {nameOf(choice)}
        </button>
      ))}
    </fieldset>
  );
}
