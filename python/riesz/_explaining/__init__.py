"""Explanations of single predictions and of whole models: the explainer, its results and their estimates."""
