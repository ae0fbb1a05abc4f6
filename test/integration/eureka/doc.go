// Package eureka tests the Eureka registry with a real Eureka server: what it reads while instances change,
// and what stays in use while the server is down, hangs, or has restarted without its instances. Start with
// TestChanges.
package eureka
