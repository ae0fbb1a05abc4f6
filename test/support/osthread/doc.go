// Package osthread is about operating system threads, to which Linux ties what Go programs think of
// as their own: the network namespace that a socket is made in, and the parent whose death kills a
// child.
//
// [Thread] starts processes that end with the program, or with the thread, whatever happens.
// [Inside] runs a function in another network namespace; [NewNetwork] creates a network without a
// name, which ends with its last holder.
package osthread
