"""Models in the form that riesz explains, and readers of the models of other libraries."""
