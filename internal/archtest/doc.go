// Package archtest keeps the rules of the architecture as tests: which package may import
// which. It holds no code of the daemon.
package archtest
