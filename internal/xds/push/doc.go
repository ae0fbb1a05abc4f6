// Package push brings configuration to connected proxies. It surrounds package rollout, which makes
// the decisions: push runs generators, keeps the streams' protocol machines and measures.
//
// The inputs are snapshots with their Deltas ([Pusher.Publish]), and proxies with their requests
// ([Pusher.Connect], [Client.Request]). The output is, for each proxy, the sequence of responses to
// write ([Client.Next]).
//
//	Publish, Connect, requests ──> event queue ──> owner ──jobs──> workers
//	                                    ^          │  └──offers──> mailboxes ──> Next
//	                                    └──────────┴─────────────────┘ results, answers
//
// One goroutine, in Run, owns the rollout.Rollout. It takes all events that have been added,
// applies them in one Step and carries out the actions. Workers run generators. Each stream has a
// mailbox with room for one ResourceSnapshot. A newer ResourceSnapshot replaces an older one in the
// mailbox.
//
// Streams run their machines (xds/stream) in the goroutines that call Request, Next and Sent, under
// a lock of their own. They report to the owner only the events that the rollout currently needs
// (needs in counts.go). So an acknowledgement usually involves no shared lock.
//
// The last changes are recorded with their causes and the proxies' answers (change_log.go,
// [Reports.Changes]). A proxy counts its answers with atomic operations, and allocates nothing.
//
// These invariants hold. Only the owner accesses the rollout. Nothing blocks the owner: the event
// queue and mailboxes never block. The rollout never has more jobs without a result than the
// channel has room for. The cost of a change depends on its content and on the number of classes. A
// slow proxy delays only itself, and no queue grows with the number of changes.
//
// Start reading with [Pusher] in pusher.go and owner.go, then session.go and step.go.
package push
