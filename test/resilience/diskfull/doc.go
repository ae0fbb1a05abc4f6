// Package diskfull tests the control plane and the agent on a full and on a read-only disk: nothing
// ends, no file is truncated, the log names the file that could not be written, and writing goes on
// when there is space again. Disks are small tmpfs mounts in a mount namespace of the tests' own.
//
//	disk_test.go     a disk that is filled, freed, and mounted read-only and back
//	writers_test.go  each part that writes files, on such a disk
//	plane_test.go    a whole control plane, whose authority and configuration are on such a disk
//	agent_test.go    an agent with its Envoy, whose working directory and certificate files are on such a disk
//
// Start with writers_test.go.
package diskfull
