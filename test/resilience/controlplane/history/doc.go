// Package history proves from records that no configuration update was lost.
//
// A test records in a Log every operation (an object was set to a generation) and every observation
// (a proxy was sent a generation of an object), each with its time, and every moment at which the
// state of a proxy did not hang together. Log.Check then reports: operations that a proxy did not
// see within a bound, generations that went back at a proxy, and mixed states.
//
// An operation counts as seen by a proxy when the proxy has observed its generation or a later one
// of the same object: a control plane may skip states, but must not stop before the last one.
//
//	object a:   set 1      set 2      set 3
//	proxy p:         sees 1               sees 3      2 counts as seen when 3 is: within the bound, or it is unseen
package history
