/** What assets are called, and how they stand, in the same words everywhere. */
import type { Model } from "~/core";

/** The references by which the platform knows it. */
export function titleOf(refs: Record<string, string> | null | undefined, fallback = ""): string {
  const values = Object.values(refs ?? {});
  return values.length ? values.join(" / ") : fallback;
}

/** One state for a list: the review if there is one, else the processing. */
export function stateOf(asset: Model<"AssetSummary">): string {
  if (asset.deleted_at) return "deleted";
  if (["failed", "processing", "pending"].includes(asset.processing_status)) return asset.processing_status;
  return asset.approval_state === "none" ? asset.processing_status : asset.approval_state;
}

/** How it stands and why, in a sentence. */
export function standing(asset: Model<"AssetView">): string {
  const served = asset.current_revision ? `Revision ${asset.current_revision} is served.` : "Nothing is served.";
  const newest = `Revision ${asset.latest_revision}`;
  if (asset.deleted_at) return `Deleted by ${asset.deleted_by ?? "somebody"}; files and history stay.`;
  if (asset.processing_status === "pending" || asset.processing_status === "processing")
    return `${newest} is being processed. ${served}`;
  if (asset.processing_status === "failed") return `${newest} failed. ${served}`;
  if (asset.approval_state === "pending_review") return `${newest} waits for a reviewer. ${served}`;
  if (asset.approval_state === "rejected") return `${newest} was rejected. ${served}`;
  if (asset.approval_state === "revoked") return `An approval was revoked. ${served}`;
  return served;
}
