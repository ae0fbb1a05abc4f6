// Package admission runs the admission webhooks of a control plane: the HTTPS server on port 15017,
// the readers of the cluster's state, and the webhook configurations.
//
// Inputs: [Settings], which users choose; the serving certificate; the mesh configuration and
// ProxyConfigs of the newest snapshot. Outputs: answers to the API server's admission reviews, and
// up-to-date webhook configurations.
//
// Invariant: Options.OnReady is called once, when the server has a certificate and has looked for
// the injection templates. Before, a review could be answered wrongly.
//
// Start with [New] and [Webhooks.Run] in webhooks.go. Reviews are answered by package webhook.
package admission
