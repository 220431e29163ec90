import type { DestinationConfig } from '../domain/file-settings.ts';
import type { ExportPlace, PlaceOwners } from '../store/verify-queries.ts';

/** Two configs with the same place see each other's files; null: a destination without files. */
export type PlaceOf = (type: string, config: DestinationConfig) => string | null;

/** Whose files may be at a place. */
export class Places {
  readonly #owners = new Map<string, ExportPlace[]>();
  readonly #placeOf: PlaceOf;

  constructor(stored: readonly ExportPlace[], placeOf: PlaceOf) {
    this.#placeOf = placeOf;
    for (const one of stored) {
      const place = this.#nameOf(one);
      const owners = this.#owners.get(place) ?? [];
      owners.push(one);
      this.#owners.set(place, owners);
    }
  }

  /** All exports at a place, and this one alone. */
  ownersAt(exportId: string, type: string, config: DestinationConfig) {
    const all = this.#owners.get(this.#nameOf({ type, config })) ?? [];
    return { all: toOwners(all), own: toOwners(all.filter((one) => one.exportId === exportId)) };
  }

  /** A config that is no longer valid is a place of its own. */
  #nameOf({ type, config }: Pick<ExportPlace, 'type' | 'config'>): string {
    try {
      return JSON.stringify([type, this.#placeOf(type, config)]);
    } catch {
      return JSON.stringify([type, config]);
    }
  }
}

function toOwners(places: readonly ExportPlace[]): PlaceOwners {
  return {
    exportIds: places.map(({ exportId }) => exportId),
    versions: places.map(({ version }) => version),
  };
}
