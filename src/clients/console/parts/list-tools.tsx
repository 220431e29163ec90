import { useQuery } from '../use-query.ts';
import { useSearchText } from '../use-search-text.ts';

interface Props<Ordering extends string> {
  /** The name of the items of the list, in the plural. */
  readonly what: string;
  /** The name of each order. The first is the default. */
  readonly orderings: Readonly<Record<Ordering, string>>;
  readonly ordering: string;
}

/** A search field and the order of a list, both kept in the address. */
export function ListTools<Ordering extends string>({ what, orderings, ordering }: Props<Ordering>) {
  const { setQuery } = useQuery();
  const [text, setText] = useSearchText();
  const [first] = Object.keys(orderings);
  return (
    <div className="row filters">
      <input
        type="search"
        aria-label={`Search ${what}`}
        placeholder="Search by name"
        maxLength={400}
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <select
        className="order"
        aria-label={`Order of the ${what}`}
        value={ordering}
        onChange={({ target: { value } }) =>
          setQuery({ ordering: value === first ? null : value, from: null })
        }
      >
        {Object.entries<string>(orderings).map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
    </div>
  );
}
