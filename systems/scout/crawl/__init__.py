"""The first stage: find apps by charts and by keywords that earlier apps have suggested."""
