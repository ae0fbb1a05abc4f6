package push

// Reports reads the state of a Pusher: its streams, what they were sent, and how far changes have
// come. Its methods change nothing and may be called by many goroutines at once. The zero value must
// not be used.
type Reports struct{ pusher *Pusher }

// Reports returns the reports of p.
func (p *Pusher) Reports() Reports { return Reports{p} }
