package push

import "time"

// Metrics receives measurements. Its methods may be called by many goroutines at once. They must
// return quickly and must not call the Pusher.
type Metrics interface {
	// Connected counts a stream that was opened (+1) or closed (-1), by the version that the proxy
	// reports.
	Connected(delta int, version string)
	// Published counts a turn. gathered is how long its changes were collected, and triggers are
	// the kinds of the changes.
	Published(gathered time.Duration, triggers []string)
	// Generated counts resources that were requested from a generator.
	Generated(typeURL string, resources int, took time.Duration)
	// Classes sets the number of classes of proxies.
	Classes(n int)
	// Queued observes the time from the offer of a ResourceSnapshot until the stream takes it.
	Queued(d time.Duration)
	// Converged observes the time from a change until a proxy has answered every response for it.
	Converged(d time.Duration)
	// Sent counts a response, with its size in bytes.
	Sent(typeURL string, resources, bytes int, took time.Duration)
	// Received counts a request, with its size in bytes.
	Received(bytes int)
	// Acked counts an ACK.
	Acked(typeURL string)
	// Refused counts a NACK. RejectionResolved reports that none of the proxy and type stands any
	// more. A NACK ends when the proxy accepts a later response of the type, no longer has to accept
	// it, or disconnects.
	Refused(n Nack)
	RejectionResolved(n Nack)
	// Quarantined sets the number of resources that are withheld from proxies.
	Quarantined(n int)
	// Late counts resources that were sent although the proxy had not shown in time that it has
	// their clusters.
	Late(typeURL string)
	// ExpiredNonce counts a request whose nonce is not the nonce of an unanswered response
	// (stream.Stale).
	ExpiredNonce(typeURL string)
	// WriteTimeout counts streams that were closed because a response could not be written in time.
	WriteTimeout()
	// StreamRefused counts streams that were refused because too many proxies were connecting.
	StreamRefused()
	// InternalError counts panics, and generators that broke their contract.
	InternalError()
}

// NoMetrics is a Metrics that ignores everything.
type NoMetrics struct{}

var _ Metrics = NoMetrics{}

// The methods of Metrics.
func (NoMetrics) Connected(int, string)                {}
func (NoMetrics) Published(time.Duration, []string)    {}
func (NoMetrics) Generated(string, int, time.Duration) {}
func (NoMetrics) Classes(int)                          {}
func (NoMetrics) Queued(time.Duration)                 {}
func (NoMetrics) Converged(time.Duration)              {}
func (NoMetrics) Sent(string, int, int, time.Duration) {}
func (NoMetrics) Received(int)                         {}
func (NoMetrics) Acked(string)                         {}
func (NoMetrics) Refused(Nack)                         {}
func (NoMetrics) RejectionResolved(Nack)               {}
func (NoMetrics) Quarantined(int)                      {}
func (NoMetrics) Late(string)                          {}
func (NoMetrics) ExpiredNonce(string)                  {}
func (NoMetrics) WriteTimeout()                        {}
func (NoMetrics) StreamRefused()                       {}
func (NoMetrics) InternalError()                       {}
