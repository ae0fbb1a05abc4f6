package stream

// Event is what happens to a stream. Its kinds are Request, Ready, Sent, Overdue, Again and Close.
type Event interface{ event() }

// Request is a DiscoveryRequest or a DeltaDiscoveryRequest. Lists are taken over and must not be changed afterwards.
type Request struct {
	TypeURL string
	// Nonce is response_nonce.
	Nonce string
	// Version is version_info (SotW).
	Version string
	// Names is resource_names (SotW).
	Names []string
	// Subscribe and Unsubscribe are resource_names_subscribe and resource_names_unsubscribe (delta).
	Subscribe, Unsubscribe []string
	// Held is initial_resource_versions (delta): what the client already has. The machine takes it over.
	Held *Holdings
	// Rejected says that error_detail is set, which is what makes a NACK; Message is its text.
	Rejected bool
	Message  string
}

// Ready says that there is a newer World for the client.
type Ready struct{ World *World }

// Sent says that the last Send was written, and the shell can take another one.
type Sent struct{}

// Overdue is the passing of time, to be fed about once a second: whoever has not answered for some time is no longer
// waited for.
type Overdue struct{}

// Again makes everything that the client subscribes to due once more, unchanged or not: an operator asked for it.
type Again struct{}

// Close ends the stream. Nothing follows it.
type Close struct{}

func (Request) event() {}
func (Ready) event()   {}
func (Sent) event()    {}
func (Overdue) event() {}
func (Again) event()   {}
func (Close) event()   {}
