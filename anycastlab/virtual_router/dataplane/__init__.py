"""What the router's rows do: the seam (`api`) and the real machinery behind it."""
