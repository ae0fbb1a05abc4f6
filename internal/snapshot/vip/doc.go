// Package vip gives virtual addresses to services that have none of their own.
//
// In: who wants one, with the age that decides between competitors, and which addresses are taken by others. Out: an
// address for each.
// Law: what everybody has is a function of who wants, whatever order they came in: so all replicas agree, before and after
// a restart, without telling each other. A newcomer never moves anybody older.
//
// Each service has a sequence of places of its own, made by hashing its name, and takes the first that nobody who goes
// before it has. That is the one outcome in which nobody could rightly ask for another place, so it may be kept up to date
// by moving only those concerned: who loses a place goes on along its sequence, and a place that becomes free goes to the
// first of those who were refused it.
//
// Start with [Pool.Set] in pool.go.
package vip
