// Package target runs the control plane under test and reads its resource usage.
//
// In: a [Plane]: what kind it is, and its binary. Out: a [Process] with its CPU time, memory and
// counters. Law: it is measured from outside, by the kernel; its own pages are read only for
// figures that the kernel does not have (allocations, live heap, goroutines).
//
// Start with [Plane] in plane.go.
package target
