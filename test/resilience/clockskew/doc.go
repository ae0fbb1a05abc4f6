// Package clockskew shows that workload certificates do not lapse when clocks differ, while the
// certificate authority is away for hours and tokens expire. The authority, the agent and the
// verifier (a peer) have clocks of their own, which all run on simulated time. The code of
// authority and agent is the real one; only clocks and the connection between them are not.
//
//	clock_test.go      simulated time, and clocks that are ahead of it or behind
//	rotation_test.go   seven days of rotation, verified with the verifier's clock
//
// Start with rotation_test.go.
package clockskew
