"""The helper package of the course. Each module is a room, and an
import names it; CONTRIBUTING.md holds the map."""
