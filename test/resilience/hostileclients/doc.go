// Package hostileclients attacks every port of pilot-discovery and pilot-agent and measures honest
// clients at the same time.
//
// Input: the table of attacks in table_test.go. Each attack is a small program in a file
// attack_*_test.go. It runs in a process of its own, at a low priority, with its own source
// addresses on loopback.
//
// Output: for each attack
//   - the latency of honest clients: a proxy that connects (until it has clusters and listeners), a
//     connected proxy that gets a change, an AdmissionReview (injection, validation), a certificate
//     request, a debug page, the agent's health, DNS and SDS;
//   - the victim's memory, goroutines, open files and log, before, during and after the attack.
//
// Bounds are assertions: an honest proxy connects within a second, a review is answered within a
// second, memory grows by a stated bound and is back within 30 s, the log grows by a stated bound.
// The time that the machine did not schedule this process is added to the bounds (see
// latency_test.go).
//
//	make test                               all attacks, about a minute
//	make attack DURATION=20m                the same for longer; RUN=idle: one attack
//	go test ./test/resilience/hostileclients -run 'TestHostileClients/silent' -duration 10s -report attack.md
//
// The flags -pilot-discovery and -pilot-agent attack other binaries, such as an earlier release.
//
// Start reading with table_test.go and hostile_test.go.
package hostileclients
