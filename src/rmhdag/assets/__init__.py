"""Pure rules of the business domain: whose an asset is, when it gets a revision, who may write what."""
