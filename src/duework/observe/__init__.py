"""What is told to people and machines that watch: the words of logs."""
