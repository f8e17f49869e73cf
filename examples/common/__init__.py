"""What the examples and the validation share: options, boxes of water, observables, molecules in GFN2-xTB."""
