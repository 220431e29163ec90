/** Connects inputs with fields of a draft: value, change and error. The API's name of a field is its own, or the one that is given. */
export function fieldsIn<Draft extends object>(
  draft: Draft,
  onChange: (part: Partial<Draft>) => void,
  errors?: ReadonlyMap<string, string>,
) {
  return <Name extends keyof Draft & string>(name: Name, label: string, attr: string = name) => ({
    ...{ attr, label, value: draft[name], error: errors?.get(attr) },
    onChange: (value: Draft[Name]) => onChange({ [name]: value } as unknown as Partial<Draft>),
  });
}
