"""What the tests share: servers, fakes and helpers."""
