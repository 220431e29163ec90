import { type DestinationConfig, readFileSettings } from '../../foundation/domain/file-settings.ts';
import { commonFolder } from '../../foundation/domain/key-template.ts';
import type { ExportPlace, PlaceOwner } from '../../state/store/intervals/verify-queries.ts';

/** Two configs with the same place see each other's files; null: a destination without files. */
export type PlaceOf = (type: string, config: DestinationConfig) => string | null;

/** An export with files at a place, and the folder that it writes to now. */
export interface FolderOwner extends PlaceOwner {
  /** Without a slash at the end; `''`: any folder. */
  readonly folder: string;
}

export class Places {
  readonly #owners = new Map<string, FolderOwner[]>();
  readonly #placeOf: PlaceOf;

  constructor(stored: readonly ExportPlace[], placeOf: PlaceOf) {
    this.#placeOf = placeOf;
    for (const one of stored) {
      const place = this.#nameOf(one);
      const owners = this.#owners.get(place) ?? [];
      const { exportId, version, model, config } = one;
      const { prefix } = readFileSettings(config);
      owners.push({ exportId, version, folder: folderOf(prefix, exportId, model) });
      this.#owners.set(place, owners);
    }
  }

  /** All exports at a place, and this one alone at the versions of its destination. */
  ownersAt(exportId: string, type: string, config: DestinationConfig) {
    const all = this.#owners.get(this.#nameOf({ type, config })) ?? [];
    return { all, own: all.filter((one) => one.exportId === exportId) };
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

export function folderOf(prefix: string, exportId: string, model: string): string {
  return commonFolder(prefix, { table: model, batchExportId: exportId });
}
