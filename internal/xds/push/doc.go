// Package push brings configuration to connected proxies. It is the shell of package rollout, which
// decides: it runs generators, keeps the streams' protocol machines and measures.
//
// In: snapshots with their Deltas ([Pusher.Publish]), and proxies with their requests
// ([Pusher.Connect], [Client.Request]). Out: for each proxy the responses to write ([Client.Next]).
//
//	Publish, Connect, requests ──> event queue ──> owner ──jobs──> workers
//	                                    ^          │  └──offers──> mailboxes ──> Next
//	                                    └──────────┴─────────────────┘ results, answers
//
// One goroutine, in Run, owns the rollout.Rollout: it takes all events that have been added,
// applies them in one Step and carries out the actions. Workers run generators. Each stream has a
// mailbox with room for one World: the newest replaces one that the stream has not taken. Streams
// run their machines (xds/stream) in the goroutines that call Request, Next and Sent, under a lock
// of their own, and report to the owner only what the rollout needs at the moment (needs in
// counts.go). So an acknowledgement usually involves no shared lock.
//
// Invariants: no goroutine but the owner touches the rollout. Nothing blocks the owner: the event
// queue and mailboxes never do, and the rollout has no more jobs without a result than the channel
// has room for. What a change costs depends on what changed and on the number of classes; a slow
// proxy delays only itself; no queue grows with the number of changes.
//
// Start with [Pusher] in pusher.go and owner.go, then session.go and step.go.
package push
