"""The pure decision core: one input and the time go in, a changed aggregate and a list of effects come out."""
