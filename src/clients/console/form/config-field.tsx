import { FieldInput } from './field-input.tsx';
import type { ConfigDraft, Field, FieldValues } from './fields.ts';

interface Props {
  readonly field: Field;
  readonly attr: string;
  readonly draft: ConfigDraft;
  readonly error: string | undefined;
  /** True if the API has a value of it that it never shows. */
  readonly hasSecret: boolean;
  readonly onChange: (part: Partial<ConfigDraft>) => void;
  /** The values after a change of this one; default: the others stay. */
  readonly withValue?: (value: string | boolean) => FieldValues;
}

/** One field of a config. A stored secret stays unless it is replaced or removed. */
export function ConfigField(props: Props) {
  const { field, attr, draft, error, hasSecret, onChange } = props;
  const { name, kind } = field;
  const isCleared = draft.cleared.has(name);
  const toggle = (clear: boolean) => {
    const cleared = new Set(draft.cleared);
    if (clear) cleared.add(name);
    else cleared.delete(name);
    onChange({ cleared });
  };
  return (
    <div className={kind === 'json' ? 'span' : undefined}>
      <FieldInput
        field={field}
        attr={attr}
        value={draft.values[name] ?? ''}
        error={error}
        stored={hasSecret && !isCleared}
        onChange={(value) =>
          onChange({ values: props.withValue?.(value) ?? { ...draft.values, [name]: value } })
        }
      />
      {kind === 'secret' && hasSecret && draft.values[name] === '' && (
        <label className="choice small muted">
          <input
            type="checkbox"
            checked={isCleared}
            onChange={(event) => toggle(event.target.checked)}
          />
          Remove the stored value
        </label>
      )}
    </div>
  );
}
