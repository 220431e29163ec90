const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);

/** The styles, each from a name in any style: `signed up`, `signedUp`, `SIGNED_UP`. */
export const caseStyles = {
  snake_case: (name: string) => wordsOf(name).join('_'),
  'kebab-case': (name: string) => wordsOf(name).join('-'),
  camelCase: (name: string) => {
    const [first = '', ...rest] = wordsOf(name);
    return first + rest.map(capital).join('');
  },
  PascalCase: (name: string) => wordsOf(name).map(capital).join(''),
  'Title Case': (name: string) => wordsOf(name).map(capital).join(' '),
} as const;

export function isCaseStyle(text: string): text is keyof typeof caseStyles {
  return Object.hasOwn(caseStyles, text);
}

/** Words are parted by what is no letter or digit, and where a capital begins one: `parseURLPath`. */
function wordsOf(name: string): string[] {
  return name
    .replace(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu, ' ')
    .toLowerCase()
    .split(/[^\p{L}\p{N}\p{M}]+/u)
    .filter((word) => word !== '');
}
