"""What operators want of jobs: that one pauses, goes on, or makes its state anew."""
