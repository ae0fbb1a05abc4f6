// Package laptop runs pilotctl mesh and pilotctl run as a user does, as root and as a user without any
// rights: the commands of docs/LAPTOP.md and docs/tasks, with their documented results. It records examples of
// docs/PILOTCTL.md.
package laptop
