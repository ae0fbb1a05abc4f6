package push

import "time"

// Metrics is told what happens. Its methods may be called by many goroutines at once, and must be quick.
type Metrics interface {
	// Connected is told of each stream that came (+1) and went (-1), with the version that the proxy says it has.
	Connected(delta int, version string)
	// Published is told of each turn: how long changes were gathered, and which kinds of them there were.
	Published(gathered time.Duration, triggers []string)
	// Generated is told of resources that a generator was asked for. Classes is the number of different kinds of proxies.
	Generated(typeURL string, resources int, took time.Duration)
	Classes(n int)
	// Queued is the time from a World's making to its taking by a client, Converged that from a change to the last answer
	// of a proxy that was sent something for it.
	Queued(d time.Duration)
	Converged(d time.Duration)
	// Sent is told of each response written, with its size in bytes.
	Sent(typeURL string, resources, bytes int, took time.Duration)
	// Received is told the size of each request in bytes.
	Received(bytes int)
	Acked(typeURL string)
	// Refused is told of each NACK, Mended when the proxy has taken a later response of the type, or is gone.
	Refused(n Nack)
	Mended(n Nack)
	// Quarantined is told how many resources are kept from proxies.
	Quarantined(n int)
	// Late is told of resources that were sent although the proxy had not shown in time that it has their clusters.
	Late(typeURL string)
	ExpiredNonce(typeURL string)
	// WriteTimeout is told of streams ended because a response could not be written in time, InternalError of panics and
	// of generators that broke their contract.
	WriteTimeout()
	InternalError()
}

// NoMetrics is Metrics for nobody.
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
func (NoMetrics) Mended(Nack)                          {}
func (NoMetrics) Quarantined(int)                      {}
func (NoMetrics) Late(string)                          {}
func (NoMetrics) ExpiredNonce(string)                  {}
func (NoMetrics) WriteTimeout()                        {}
func (NoMetrics) InternalError()                       {}
