package stream

// Event is an input of Machine.Step. Its kinds are Request, Ready, Sent, Tick, ResendAll and Close.
type Event interface{ event() }

// Request is a DiscoveryRequest or a DeltaDiscoveryRequest. The machine takes ownership of its
// lists, so the caller must not change them afterwards.
type Request struct {
	TypeURL string
	// Nonce is response_nonce.
	Nonce string
	// Version is version_info (SotW).
	Version string
	// Names is resource_names (SotW).
	Names []string
	// Subscribe and Unsubscribe are resource_names_subscribe and resource_names_unsubscribe
	// (delta).
	Subscribe, Unsubscribe []string
	// Interned, if it is not nil, keeps Subscribe reachable, which is a result of Options.Intern
	// then.
	Interned any
	// Held is initial_resource_versions (delta): the resources that the client already has. The
	// machine takes ownership of it.
	Held *Holdings
	// Rejected is set if error_detail is set, which alone makes the request a NACK. Message is the
	// text of error_detail.
	Rejected bool
	Message  string
}

// Ready passes a newer ResourceSnapshot for the client.
type Ready struct{ Resources *ResourceSnapshot }

// Sent reports that the last Send was written and that the caller can write another one.
type Sent struct{}

// Tick reports that time has passed. The caller sends it about once a second. The machine counts
// these events to expire its waits for the client.
type Tick struct{}

// ResendAll sends everything that the client subscribes to once more, changed or not. An operator
// requested it.
type ResendAll struct{}

// Close ends the stream. Later events are ignored.
type Close struct{}

func (Request) event()   {}
func (Ready) event()     {}
func (Sent) event()      {}
func (Tick) event()      {}
func (ResendAll) event() {}
func (Close) event()     {}
