package push

// BreakMachine makes the next step of the stream's state machine panic.
func (c *Client) BreakMachine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine = nil
}
