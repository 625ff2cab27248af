"""Pure rules of the business domain: the identity of an asset, when it gets a revision, who may write what."""
